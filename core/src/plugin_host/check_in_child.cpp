#include <atomic>
#include <csignal>
#include <cstring>
#include <string>

#include "plugin_host/check_child.hpp"
#include "plugin_host/limited_child.hpp"

namespace gearbox::plugin_host {

namespace {

std::string how_it_ended(const ChildEnd& end) {
  if (end.how == ChildEnd::How::signalled) {
    if (end.number == SIGXCPU || end.number == SIGKILL) {
      return "used more than " + std::to_string(kCheckCpuSeconds) + " s of processor time, or was killed (" +
             signal_name(end.number) + ")";
    }
    return "crashed while it was checked: " + signal_name(end.number) + " (" + ::strsignal(end.number) + ")";
  }
  if (end.how == ChildEnd::How::unknown) return "its check said nothing";
  return "ended its check by itself with exit code " + std::to_string(end.number);
}

}  // namespace

Outcome<PluginInfo> check_in_child(const std::filesystem::path& file, const std::filesystem::path& checker,
                                   const std::atomic<bool>* stop) {
  ChildTask task;
  task.program = checker;
  task.words.assign(kChildArguments.begin(), kChildArguments.end());
  task.words.push_back(file.string());
  task.wall = kCheckWall;
  task.most_bytes = kCheckOutputBytes;
  const Outcome<ChildEnd> ran = run_child(task, stop);
  if (!ran) return Error{ran.error().code, "could not be checked: " + ran.error().detail};
  const ChildEnd& end = ran.value();
  if (end.how == ChildEnd::How::stopped) return Error{Errc::io_error, "could not be checked: the broker is stopping"};
  if (end.how == ChildEnd::How::late) {
    return Error{Errc::bad_plugin,
                 "hangs: its check took longer than " + std::to_string(kCheckWall.count() / 1000) + " s"};
  }
  if (end.how == ChildEnd::How::signalled || end.output.empty()) return Error{Errc::bad_plugin, how_it_ended(end)};
  BOOST_OUTCOME_TRY(PluginInfo info, from_json_line(end.output));
  info.file = file;
  info.state = "loaded";
  return info;
}

}  // namespace gearbox::plugin_host
