// check_child.hpp: the child process that tries a plugin out, and what it says.
//
// It is started as CHECKER plugins check --child FILE, with descriptors 0 to 2 only (stdout is a pipe to the parent).
// The program that gets these arguments calls check_child_main() and exits with what that returns. One line of JSON is
// printed:
//   {"ok":true,"name":"least_loaded","kind":"balancer","version":"1.0","summary":"...","options":[{"key":"queue_limit",
//    "type":"integer","fallback":"1024","unit":"requests","help":"...","lowest":1,"highest":1000000}]}
//   {"ok":false,"reason":"exports no gearbox_plugin"}
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "plugin_host/plugin_host.hpp"

namespace gearbox::plugin_host {

inline constexpr std::array<const char*, 3> kChildArguments = {"plugins", "check", "--child"};
inline constexpr milliseconds kCheckWall{10'000};  // then the child and all it started are killed
inline constexpr unsigned kCheckCpuSeconds = 5;
inline constexpr std::uint64_t kCheckMemoryBytes = 1ULL << 30;  // not with sanitizers, which reserve terabytes
inline constexpr std::size_t kCheckOutputBytes = 64 * 1024;

/// Limits this process, tries `file`, prints the line. Returns the exit code: 0 good, 1 refused. What the plugin itself
/// prints goes to stderr.
int check_child_main(const std::filesystem::path& file);

std::string to_json_line(const Outcome<PluginInfo>& result);
/// Errors: bad_plugin: the reason that the line gives, or that it is none.
Outcome<PluginInfo> from_json_line(std::string_view line);

}  // namespace gearbox::plugin_host
