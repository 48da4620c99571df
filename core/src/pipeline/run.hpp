// run.hpp: one run of a task's graph of steps: feeds each step when its tensors are there, scatters for_each over its
// list, gathers the answers in order, and puts the result together. Payloads stay in their slabs. Which version of a
// model a step uses is found out when the step starts. One strand.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/config.hpp"
#include "dispatch/dispatcher.hpp"
#include "explain/trace.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::pipeline {

/// What a name such as "detect.crops" stands for: one tensor, or a list of them.
struct Value {
  bool list = false;
  std::vector<worker_pool::TensorRef> tensors;  // exactly one when it is no list
  wire::DType dtype = wire::DType::uint8;       // of the items, known even when there are none
};

/// A tensor of the result: its description, and the pieces whose bytes follow each other.
struct ResultTensor {
  wire::TensorSpec spec;
  std::vector<worker_pool::TensorRef> pieces;
};

/// One part of what a model streams, under the names that its tensors have in the task's result.
struct RunPart {
  std::uint32_t number = 0;  // from 0, in order
  std::vector<ResultTensor> tensors;
  std::vector<bool> grows;  // by tensor: any size is declared for its first dimension, so that parts follow each other
                            // along it where they are put together; else they are items of a list
};

struct RunResult {
  std::vector<ResultTensor> tensors;                          // those that came in parts are not among them
  std::uint32_t parts = 0;                                    // how many came
  std::vector<std::pair<std::string, wire::DType>> streamed;  // what each of them held
  std::vector<wire::StepTiming> steps;                        // in the order of the task
  microseconds queue{0};                                      // start → first call handed over
};

struct RunRequest {
  config::Snapshot config;
  std::shared_ptr<const config::TaskConfig> task;  // of that snapshot, or the device's own steps
  std::map<std::string, Value> inputs;             // by input name
  Instant begun{};                                 // from here to the deadline is the whole of which steps have shares
  Instant deadline = Instant::max();
  boost::asio::io_context* io = nullptr;  // whose timers end the shares; null: nobody does
  std::uint32_t tenant = 0;
  std::uint32_t weight = 1;
  std::uint8_t priority = 0;
  std::string pool;         // that the request belongs to; empty: none
  std::uint64_t seed = 0;   // of the request; each call gets one of its own made of it; 0: none
  explain::TracePtr trace;  // its steps are filled in; null: nothing is noted
  /// Called for each part, before `finished`. As long as it is held it keeps a place in the worker's memory, and the
  /// model waits (see worker_pool::StreamPart). Empty: parts are dropped.
  std::function<void(RunPart)> on_part;
};

/// Of a run that ended as `quarantined`: what killed whom.
struct Deadly {
  std::string step, model, version;
  std::vector<std::string> ends;  // of the workers, in their order
};

/// At most so many calls may one for_each make.
inline constexpr std::size_t kMaxFanOut = wire::kMaxTensors;  // no answer holds a longer list

class Run : public std::enable_shared_from_this<Run> {
 public:
  using Finished = std::function<void(Outcome<RunResult>)>;
  /// `finished` is called exactly once, perhaps from inside start(), unless cancel() comes first.
  static std::shared_ptr<Run> start(dispatch::Dispatcher& dispatcher, RunRequest request, Finished finished);
  /// Drops all that waits or runs; `finished` is not called.
  void cancel();
  /// Adds the calls that wait or run now to the steps of `trace`.
  void note_open(explain::Trace& trace) const;
  /// To be asked from inside `finished`, when that says quarantined.
  const Deadly& deadly() const { return deadly_; }
  /// The same, when that says overloaded: when the model wants to be asked again; 0: nobody said.
  milliseconds again() const { return again_; }

 private:
  struct Answer {
    std::vector<worker_pool::TensorRef> outputs;
    std::shared_ptr<const model::Record> record;  // that gave them
  };
  struct Step {
    const config::StepConfig* config = nullptr;
    std::shared_ptr<const model::Record> record;  // known once it has started
    bool started = false;
    bool done = false;
    bool streamed = false;  // its outputs went out in parts
    std::size_t open_calls = 0;
    std::vector<Answer> answers;  // by call
    wire::StepTiming timing;
    Instant until{};  // its calls end then, those that are made again, too
    std::unique_ptr<boost::asio::steady_timer> share_ends;
  };
  /// Of a call that is made again: what became of it before.
  struct Tried {
    std::uint32_t retries = 0;
    explain::Call earlier;
    microseconds queued{0};
    std::chrono::nanoseconds run{0};
  };

  Run(dispatch::Dispatcher& dispatcher, RunRequest request, Finished finished);
  void begin();
  void advance();
  bool is_fed(const Step& step) const;
  const Value* find(const config::TensorSource& source) const;
  Outcome<void> start_step(std::size_t index);
  void note_start(std::size_t index, const model::Record& record, std::size_t calls) const;
  void note_answer(std::size_t index, std::size_t call, dispatch::JobResult& result) const;
  Outcome<std::size_t> count_calls(const Step& step) const;
  Outcome<std::vector<worker_pool::TensorRef>> inputs_of(const Step& step, std::size_t call) const;
  void answered(std::size_t step, std::size_t call, dispatch::JobResult result);
  Outcome<void> gather(Step& step);
  static Outcome<void> take_output(Value& value, const model::TensorDecl& output, const Answer& answer);
  Outcome<RunResult> result() const;
  // attempts.cpp
  static std::uint64_t place_of(std::size_t step, std::size_t call) { return (std::uint64_t{step} << 32) | call; }
  Outcome<void> submit(std::size_t step, std::size_t call, std::shared_ptr<const model::Record> record);
  bool may_retry(std::size_t step, std::size_t call, Errc code) const;
  void try_again(std::size_t step, std::size_t call, dispatch::JobResult result);
  void add_earlier(std::size_t step, std::size_t call, dispatch::JobResult& result);
  bool is_share_over(const Step& step) const;
  void open_share(std::size_t step);
  void share_ran_out(std::size_t step);
  std::string where(std::size_t step, std::size_t call) const;
  std::string share_text(const Step& step) const;
  static std::string tries_text(const Step& step);
  // stream_step.cpp
  Outcome<void> stream_into(worker_pool::CallSpec& call, std::size_t step);
  void came(std::size_t step, worker_pool::StreamPart part);
  std::optional<wire::DType> streamed(const config::TensorSource& source) const;
  Outcome<void> end_stream(Step& step, const dispatch::JobResult& result);
  void finish(Outcome<RunResult> outcome);

  dispatch::Dispatcher& dispatcher_;
  RunRequest request_;
  Finished finished_;
  std::vector<Step> steps_;
  std::map<std::string, Value> values_;                                  // "step.tensor"
  std::unordered_map<std::uint64_t, dispatch::Dispatcher::JobId> jobs_;  // step << 32 | call → job
  std::unordered_map<std::uint64_t, Tried> tried_;                       // by the same
  microseconds queue_{0};
  std::uint32_t parts_ = 0;
  bool first_call_seen_ = false;
  bool over_ = false;
  Deadly deadly_;
  milliseconds again_{0};
};

/// Joins the tensors of a list: all of shape [1]: [n]; all of one shape: [n, ...]; otherwise one entry per item,
/// "NAME.0", "NAME.1", ... Never copies a byte.
std::vector<ResultTensor> join(const std::string& name, const Value& value);

}  // namespace gearbox::pipeline
