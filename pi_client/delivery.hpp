// delivery.hpp: brings one request to its end: prepared, submitted, resubmitted under the same id after each lost
// connection, answered or given up. Many run at once over one NodeLink.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "node_link.hpp"
#include "options.hpp"
#include "payload.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "tasks.hpp"

namespace gearbox::client {

/// All requests of one `send`.
class Delivery {
 public:
  /// `options` outlives it. `on_report` is called once for each request, on the strand, in the order in which they end.
  Delivery(Dialler dialler, const Options* options, Identity identity, LinkSettings settings,
           std::function<void(Report)> on_report);

  /// For streamed answers, before run(): called with each part, in order, each once, before the report. `so_far` has
  /// file, task, request and node.
  void on_part(std::function<void(const Report& so_far, const Part& part)> taken) { on_part_ = std::move(taken); }

  /// Returns when every request has been reported and all connections are closed.
  asio::awaitable<void> run();
  /// Requests under way are cancelled at the node and reported as cancelled; the others are reported without being
  /// begun.
  void cancel();
  Tally tally() const;

 private:
  struct Running;  // one request under way
  asio::awaitable<void> take_turns();
  asio::awaitable<Report> deliver(RequestFiles files);
  asio::awaitable<Outcome<void>> converse(Running* running, Report* report);
  void take_parts(Running& running, const Report& report, NodeConnection& connection) const;
  void note_holders();
  void note_answer(const Running& running, Report& report) const;

  Dialler dialler_;
  const Options* options_;
  Identity identity_;
  NodeLink link_;
  std::function<void(Report)> on_report_;
  std::function<void(const Report&, const Part&)> on_part_;
  std::vector<RequestFiles> requests_;
  std::size_t next_ = 0;
  std::size_t finished_ = 0;
  bool cancelled_ = false;
  TaskGroup turns_;
  Bell bell_;
  std::vector<const Running*> running_;
  std::uint64_t uploaded_by_finished_ = 0;
};

/// What the command line makes of files: one request each, or one of all --input.
std::vector<RequestFiles> requests_of(const SendOptions& options);

}  // namespace gearbox::client
