#include "observer/observer.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>

#include <algorithm>
#include <utility>

#include "gear_facts/ask.hpp"
#include "gear_facts/pages.hpp"
#include "gear_facts/places.hpp"
#include "gear_facts/times.hpp"
#include "gearbox/base/text.hpp"
#include "link/json_reader.hpp"
#include "observer/tcp_prober.hpp"

namespace gearbox::observer {

namespace asio = boost::asio;
namespace json = boost::json;
using link::ObjectReader;

namespace {

constexpr milliseconds kAnswer{1'000};  // for an engine or the node
constexpr milliseconds kSlack{500};
constexpr std::size_t kMostModels = 4096;
constexpr std::size_t kMostGpus = 64;
constexpr std::size_t kMostWorkers = 4096;

struct WorkerPlace {
  std::int64_t pid = 0;
  std::string pool;
};

void read_gpu(ObjectReader& reader, gear_facts::GpuFacts& gpu) {
  reader.read("index", gpu.index);
  reader.read("memory_used_bytes", gpu.memory_used_bytes);
  reader.read("memory_total_bytes", gpu.memory_total_bytes);
}

}  // namespace

Observer::Observer(asio::io_context& io, config::StateDir state, milliseconds interval,
                   std::shared_ptr<LinkProber> links, std::unique_ptr<LinkResponder> responder,
                   config::LinksConfig links_config)
    : io_(io),
      state_(std::move(state)),
      interval_(interval),
      links_config_(std::move(links_config)),
      prober_(std::move(links)),
      responder_(std::move(responder)),
      tick_(io),
      round_at_(Clock::now()),
      identity_(std::to_string(::getpid()) + "-" + std::to_string(gear_facts::boot_ms())) {}

void Observer::begin() {
  asio::co_spawn(io_, rounds(this), asio::detached);
}

asio::awaitable<void> Observer::rounds(Observer* self) {
  for (;;) {
    self->begin_round();
    self->tick_.expires_after(self->interval_);
    boost::system::error_code woken;  // also by a new interval
    co_await self->tick_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
}

void Observer::begin_round() {
  ++sequence_;
  round_at_ = Clock::now();
  answer_probes();
  const gear_facts::GroupNames found = gear_facts::find_groups(state_);
  left_out_ = found.left_out;
  std::erase_if(groups_, [&](const auto& entry) {
    return !std::binary_search(found.names.begin(), found.names.end(), entry.first);
  });
  for (const std::string& name : found.names) {
    groups_.try_emplace(name, name);
    if (asking_.insert(name).second) asio::co_spawn(io_, ask_group(this, name), asio::detached);
  }
  if (asking_.insert(std::string()).second) asio::co_spawn(io_, ask_node(this), asio::detached);
  const std::vector<std::string> peers = prober_->peers();
  links_.keep_only(peers);
  for (const std::string& peer : peers) {
    if (!prober_->is_due(peer, round_at_)) continue;
    if (asking_.insert("/" + peer).second) asio::co_spawn(io_, probe(this, peer), asio::detached);
  }
}

asio::awaitable<void> Observer::ask_group(Observer* self, std::string name) {
  json::object question{{"op", "status"}};
  const gear_facts::Answer answer = co_await gear_facts::ask_engine(
      self->io_.get_executor(), gear_facts::group_socket(self->state_, name), std::move(question), kAnswer);
  self->asking_.erase(name);
  const auto group = self->groups_.find(name);
  if (group == self->groups_.end()) co_return;  // its socket was removed meanwhile
  if (!answer) {
    const bool nobody = answer.error().code == Errc::unreachable;
    group->second.not_heard(nobody ? "nobody answers at its socket" : "its engine: " + describe(answer.error()));
    co_return;
  }
  const Outcome<gear_facts::EngineStatus> status = gear_facts::read_status(answer.value());
  if (status) {
    group->second.heard(status.value(), figures_of, Clock::now());
  } else {
    group->second.not_heard("its engine's status: " + status.error().detail);
  }
}

asio::awaitable<void> Observer::ask_node(Observer* self) {
  json::object question{{"command", "status"}};
  const gear_facts::Answer answer =
      co_await gear_facts::ask_role(self->io_.get_executor(), self->state_.node_socket(), std::move(question), kAnswer);
  self->asking_.erase(std::string());
  self->node_.node_answers = answer.has_value();
  if (answer) {
    self->take_node(answer.value());
  } else {
    self->node_ = {};
  }
}

void Observer::take_node(const json::object& status) {
  gear_facts::Snapshot read;
  read.node_answers = true;
  ObjectReader reader(status);
  reader.read_list("models", read.queues, kMostModels, [](ObjectReader& each, gear_facts::ModelQueue& queue) {
    each.read("name", queue.model, kMaxNameBytes);
    each.read("queued", queue.queued);
    each.read("running", queue.running);
  });
  reader.read_object("gpus", read.gpus, [](ObjectReader& gpus, std::vector<gear_facts::GpuFacts>& into) {
    gpus.read_list("list", into, kMostGpus, read_gpu);
  });
  std::vector<WorkerPlace> workers;
  reader.read_list("workers", workers, kMostWorkers, [](ObjectReader& each, WorkerPlace& worker) {
    each.read("pid", worker.pid);
    each.read("pool", worker.pool, kMaxNameBytes);
  });
  if (!reader.result()) return;  // of a version beside ours: what it says of its queues stays unknown
  pools_.clear();
  for (WorkerPlace& worker : workers) {
    if (!worker.pool.empty() && worker.pid > 0) pools_.insert_or_assign(worker.pid, std::move(worker.pool));
  }
  if (const json::value* gpus = status.if_contains("gpus"); gpus != nullptr && gpus->is_object()) {
    const json::value* list = gpus->get_object().if_contains("list");
    for (std::size_t i = 0; list != nullptr && list->is_array() && i < read.gpus.size(); ++i) {
      const json::value* busy = list->get_array()[i].get_object().if_contains("busy_percent");
      boost::system::error_code none;
      const double percent = busy != nullptr && busy->is_number() ? busy->to_number<double>(none) : -100;
      read.gpus[i].busy = percent / 100;
    }
  }
  node_ = std::move(read);
}

asio::awaitable<void> Observer::probe(Observer* self, std::string peer) {
  const std::shared_ptr<LinkProber> prober = self->prober_;  // another one may take its place meanwhile
  const LinkMeasure measure = co_await prober->probe(peer);
  self->asking_.erase("/" + peer);
  if (prober == self->prober_) self->links_.add(peer, measure, Clock::now());
}

/// What is in force stays so where nothing has changed: figures of links are not measured anew for nothing.
void Observer::use_links(const config::LinksConfig& links) {
  const config::LinksConfig before = std::exchange(links_config_, links);
  if (before.listen != links.listen) {
    responder_.reset();
    listen_fault_.clear();
  }
  answer_probes();
  const bool same = before.peers == links.peers && before.ping == links.ping &&
                    before.burst_every == links.burst_every && before.burst_bytes == links.burst_bytes;
  if (!same) prober_ = std::make_shared<TcpProber>(io_.get_executor(), links);
}

/// Until it can: an address may come later than we do. Who cannot answer probes observes all the same.
void Observer::answer_probes() {
  if (responder_ != nullptr || links_config_.listen.empty()) return;
  auto listening = LinkResponder::listen(io_.get_executor(), links_config_.listen);
  const std::string fault = listening ? std::string() : escaped(listening.error().detail);
  if (listening) responder_ = std::move(listening).value();
  if (fault == listen_fault_) return;
  if (fault.empty()) {
    spdlog::info("event=links_answered role=observer listen={}", escaped(links_config_.listen));
  } else {
    spdlog::error("event=links_not_answered role=observer reason=\"{}\" hint=\"tried again each round\"", fault);
  }
  listen_fault_ = fault;
}

milliseconds Observer::stale_after() const {
  return 2 * interval_ + kAnswer + kSlack;
}

gear_facts::Snapshot Observer::head() const {
  gear_facts::Snapshot head = node_;
  head.sequence = sequence_;
  head.observer = identity_;
  head.age_ms = elapsed(round_at_, Clock::now()).count() / 1000;
  head.link_probed = !prober_->peers().empty();  // also before the first probe has ended: trust is kept till then
  head.link_failed = links_.failed();
  head.link_share = links_.health();
  head.link_samples = links_.samples();
  head.links = links_.facts(Clock::now());
  return head;
}

void Observer::add_status(json::object& status) const {
  const Instant now = Clock::now();
  std::size_t stale = 0;
  for (const auto& [name, watch] : groups_) stale += watch.facts(now, stale_after()).stale ? 1 : 0;
  status["sequence"] = sequence_;
  status["age_ms"] = elapsed(round_at_, now).count() / 1000;
  status["interval_ms"] = interval_.count();
  status["groups"] = groups_.size();
  status["stale"] = stale;
  status["left_out"] = left_out_;
  status["node_answers"] = node_.node_answers;
}

Outcome<json::object> Observer::control(std::string_view command, const json::object& request) {
  if (command != "snapshot") return Error{Errc::not_found, {}};
  const std::string after = gear_facts::text_of(request, "after");
  const Instant now = Clock::now();
  json::object answer = gear_facts::head_of(head());
  gear_facts::Page page;
  for (auto at = groups_.upper_bound(after); at != groups_.end(); ++at) {
    gear_facts::GroupFacts facts = at->second.facts(now, stale_after());
    facts.link_health = links_.health();
    facts.link_slowdown = links_.slowdown();
    if (const auto pool = pools_.find(at->second.driver()); pool != pools_.end()) facts.pool = pool->second;
    if (!page.add(gear_facts::to_json(facts))) break;
  }
  std::move(page).into(answer);
  return answer;
}

Outcome<std::function<void()>> Observer::prepare(const live::Update& update) {
  const milliseconds interval = update.config->gears.interval;
  return std::function<void()>([this, interval, links = update.config->gears.links] {
    if (std::exchange(interval_, interval) != interval) tick_.cancel();
    use_links(links);
  });
}

}  // namespace gearbox::observer
