#include "cli/gate_child.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>

#include <csignal>
#include <string>
#include <string_view>

namespace gearbox::cli {

namespace {

constexpr rlim_t kMostMemory = rlim_t{4} << 30;  // not with sanitizers, which reserve terabytes
constexpr rlim_t kMostDescriptors = 256;

void limit(int what, rlim_t most) {
  const rlimit value{most, most};
  ::setrlimit(static_cast<__rlimit_resource>(what), &value);
}

}  // namespace

std::optional<GateChild> GateChild::begin() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would kill it at the deadline
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, kMostDescriptors);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  limit(RLIMIT_AS, kMostMemory);
#endif
  const int answer = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (answer < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return std::nullopt;
  return GateChild(answer);
}

void GateChild::say(const boost::json::object& line) const {
  const std::string text = boost::json::serialize(line) + "\n";
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t put = ::write(descriptor_, rest.data(), rest.size());
    if (put <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
}

}  // namespace gearbox::cli
