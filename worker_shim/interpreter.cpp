#include <Python.h>  // before all others, as Python asks for

#include "interpreter.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "gearbox/base/clock.hpp"

extern char** environ;

namespace gearbox::shim {
namespace {

namespace fs = std::filesystem;

const std::string kOurVersion = std::to_string(PY_MAJOR_VERSION) + "." + std::to_string(PY_MINOR_VERSION);

/// "3.11.2" from a venv's pyvenv.cfg, which names its version; empty when there is none.
std::string version_from_venv(const fs::path& python) {
  std::ifstream file(python.parent_path().parent_path() / "pyvenv.cfg");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    std::string key = line.substr(0, equals);
    key.erase(key.find_last_not_of(' ') + 1);
    if (key != "version" && key != "version_info") continue;  // venv · virtualenv and uv
    const std::size_t digit = line.find_first_of("0123456789", equals);
    if (digit != std::string::npos) return line.substr(digit);
  }
  return {};
}

constexpr std::size_t kMostAnswer = 256;  // bytes; a version has about ten
constexpr milliseconds kAnswerWait{10000};

/// All that comes until the end. False: it is too long, or does not end in time.
bool read_answer(int from, std::string& text) {
  const Instant until = Clock::now() + kAnswerWait;
  std::array<char, 64> buffer{};
  while (text.size() <= kMostAnswer) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    pollfd there{from, POLLIN, 0};
    const int ready = left <= 0 ? 0 : ::poll(&there, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t got = ::read(from, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return false;
}

/// Asks the interpreter itself: conda environments and plain installations have no pyvenv.cfg.
std::string version_from_running(const fs::path& python) {
  std::array<int, 2> pipe_ends{};
  if (::pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions{};
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  std::string program = python.string();
  std::string code = "import sys; print('%d.%d.%d' % sys.version_info[:3])";
  std::string flags = "-IS";
  std::string dash_c = "-c";
  const std::array<char*, 5> argv{program.data(), flags.data(), dash_c.data(), code.data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe_ends[1]);
  std::string text;
  if (failed == 0) {
    const bool whole = read_answer(pipe_ends[0], text);
    if (!whole) ::kill(child, SIGKILL);  // whatever that is, it is no Python
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!whole || status != 0) text.clear();
  }
  ::close(pipe_ends[0]);
  text.erase(text.find_last_not_of("\r\n ") + 1);
  return text;
}

Error python_error(const Environment& environment, const PyStatus& status) {
  return Error{Errc::not_found, "environment '" + environment.name + "': Python does not start from " +
                                    environment.python.string() + ": " +
                                    (status.err_msg != nullptr ? status.err_msg : "?")};
}

/// Absolute, but with links kept: a venv's python is a link, and its own place is what makes it the venv's.
fs::path absolute_path(const fs::path& path) {
  return fs::absolute(path).lexically_normal();
}

/// "3.11.2"; empty when it cannot be told.
std::string version_of(const fs::path& python) {
  const std::string version = version_from_venv(python);
  return version.empty() ? version_from_running(python) : version;
}

bool is_ours(const std::string& version) {
  return version == kOurVersion || version.starts_with(kOurVersion + ".");
}

}  // namespace

void hand_over_to_other_version(const Environment& environment, char** argv) {
  const fs::path python = absolute_path(environment.python);
  if (::access(python.c_str(), X_OK) != 0) return;  // check_environment() says so
  const std::string version = version_of(python);
  if (version.empty() || is_ours(version)) return;
  std::error_code failed;
  const fs::path self = fs::read_symlink("/proc/self/exe", failed);
  if (failed) return;
  const std::string short_version = version.substr(0, version.find('.', version.find('.') + 1));
  if (short_version.find_first_not_of("0123456789.") != std::string::npos) return;  // part of a path now
  const fs::path other = self.parent_path() / ("worker_shim-" + short_version);
  // One that bears a wrong name would start itself for ever.
  if (!fs::exists(other, failed) || fs::equivalent(other, self, failed)) return;
  ::execv(other.c_str(), argv);
  std::fprintf(stderr, "worker_shim: %s does not start: %s\n", other.c_str(), std::strerror(errno));
}

Outcome<void> check_environment(const Environment& environment) {
  const fs::path python = absolute_path(environment.python);
  if (::access(python.c_str(), X_OK) != 0) {
    return Error{Errc::not_found, "environment '" + environment.name + "' is missing: " + python.string() + ": " +
                                      std::strerror(errno) + " (make it with scripts/make-env " + environment.name +
                                      " " + python.parent_path().parent_path().string() + ")"};
  }
  const std::string version = version_of(python);
  if (version.empty()) {
    return Error{Errc::not_found,
                 "environment '" + environment.name + "': " + python.string() + " is no working Python"};
  }
  if (!is_ours(version)) {
    return Error{Errc::unsupported_version, "environment '" + environment.name + "' has Python " + version +
                                                ", this worker_shim is built for " + kOurVersion +
                                                " (scripts/build-shim builds one for another interpreter)"};
  }
  return done();
}

void set_thread_limits(std::uint32_t threads) {
  const std::string count = std::to_string(threads);
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
                           "VECLIB_MAXIMUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"}) {
    ::setenv(name, count.c_str(), 1);
  }
}

Outcome<fs::path> helper_folder() {
  std::error_code failed;
  const fs::path self = fs::read_symlink("/proc/self/exe", failed);
  const fs::path folder = self.parent_path().parent_path() / "lib/gearbox/python";
  if (failed || !fs::exists(folder / "gearbox_worker/__init__.py", failed)) {
    return Error{Errc::not_found,
                 "the shim's Python side is not at " + folder.string() + ": the installation is incomplete"};
  }
  return folder;
}

Outcome<void> start_python(const Environment& environment, const std::vector<fs::path>& folders) {
  PyPreConfig before;
  PyPreConfig_InitIsolatedConfig(&before);
  before.utf8_mode = 1;  // file names and logs are UTF-8 whatever locale the service manager gives
  PyStatus status = Py_PreInitialize(&before);
  if (PyStatus_Exception(status) != 0) return python_error(environment, status);

  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.site_import = 1;  // the environment's site-packages
  config.user_site_directory = 0;
  config.install_signal_handlers = 0;
  config.buffered_stdio = 0;  // a killed worker's last words reach the log
  config.write_bytecode = 0;  // no __pycache__ inside a configuration folder that is being watched
  const std::string python = absolute_path(environment.python).string();
  for (wchar_t** place : {&config.executable, &config.program_name}) {
    if (PyStatus_Exception(status) == 0) status = PyConfig_SetBytesString(&config, place, python.c_str());
  }
  if (PyStatus_Exception(status) == 0) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status) != 0) return python_error(environment, status);

  PyObject* const path = PySys_GetObject("path");  // borrowed
  Py_ssize_t at = 0;
  for (const fs::path& folder : folders) {
    PyObject* const text = PyUnicode_DecodeFSDefault(folder.c_str());
    const bool added = path != nullptr && text != nullptr && PyList_Insert(path, at++, text) == 0;
    Py_XDECREF(text);
    if (!added) {
      PyErr_Clear();
      return Error{Errc::internal, "sys.path cannot be extended by " + folder.string()};
    }
  }
  return done();
}

}  // namespace gearbox::shim
