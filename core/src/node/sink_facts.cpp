#include "node/sink_facts.hpp"

#include <boost/json/array.hpp>

#include <utility>

namespace gearbox::node {

boost::json::object sink_facts(const sinks::Facts& facts) {
  boost::json::array list;
  for (const sinks::SinkFacts& sink : facts.sinks) {
    list.push_back(boost::json::object{{"name", sink.name},
                                       {"plugin", sink.plugin},
                                       {"state", sink.lane.state},
                                       {"queued", sink.queued},
                                       {"queued_bytes", sink.queued_bytes},
                                       {"delivered", sink.lane.delivered},
                                       {"retried", sink.lane.retried},
                                       {"held", sink.lane.held},
                                       {"dead_letters", sink.dead_letters},
                                       {"last_error", sink.lane.last_error}});
  }
  boost::json::object stranded;
  for (const auto& [name, events] : facts.stranded) stranded[name] = events;
  return boost::json::object{{"list", std::move(list)},         {"handed_over", facts.handed_over},
                             {"dropped", facts.dropped},        {"last_error", facts.last_error},
                             {"stranded", std::move(stranded)}, {"set_aside", facts.set_aside.string()}};
}

}  // namespace gearbox::node
