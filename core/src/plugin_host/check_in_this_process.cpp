#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "gearbox/base/text.hpp"
#include "gearbox/toml/document.hpp"
#include "plugin_host/check_child.hpp"
#include "plugin_host/elf_check.hpp"
#include "plugin_host/library.hpp"
#include "plugin_host/private_copy.hpp"
#include "plugin_host/probe.hpp"

namespace gearbox::plugin_host {

namespace {

void limit(int what, rlim_t most) {
  const rlimit value{most, most};
  ::setrlimit(static_cast<__rlimit_resource>(what), &value);
}

/// Whatever the plugin's start-up code does, it does it in here.
void limit_this_process() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would kill it at the deadline
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, kCheckCpuSeconds);
  limit(RLIMIT_NOFILE, 64);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  limit(RLIMIT_AS, kCheckMemoryBytes);
#endif
}

}  // namespace

Outcome<PluginInfo> check_in_this_process(const std::filesystem::path& file) {
  auto content = toml::read_file(file, kMaxPluginBytes);
  if (!content) return Error{Errc::bad_plugin, content.error().detail};
  BOOST_OUTCOME_TRY(check_elf(view_of(content.value())));
  content = std::string();  // not held beside the mapped library
  BOOST_OUTCOME_TRY(const auto library, Library::open(std::filesystem::absolute(file), Library::Setting()));
  BOOST_OUTCOME_TRY(probe(library));
  PluginInfo info = library->info();
  info.file = file;
  info.state = "loaded";
  return info;
}

int check_child_main(const std::filesystem::path& file) {
  limit_this_process();
  // The line goes out through a descriptor of its own; what the plugin prints goes to stderr.
  const int answer = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (answer < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 1;
  const Outcome<PluginInfo> result = check_in_this_process(file);
  const std::string line = to_json_line(result) + "\n";
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t put = ::write(answer, line.data() + sent, line.size() - sent);
    if (put <= 0) return 1;
    sent += static_cast<std::size_t>(put);
  }
  // Not through exit handlers: those of the plugin's library would still run, and have been answered for already.
  ::_exit(result ? 0 : 1);
}

}  // namespace gearbox::plugin_host
