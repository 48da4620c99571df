// command.hpp: what people have a device do from afar: two frame types, and their JSON (see messages.hpp).
//
//   D→C command         no JSON: this device carries commands out; may central have some?
//   C→D command         Command; each is answered before the next one comes
//   D→C command_answer  CommandAnswer
// Central answers what the device asks after that when no command is left, or one was not answered in time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/frame.hpp"

namespace gearbox::wire {

inline constexpr FrameType kCommand{50};
inline constexpr FrameType kCommandAnswer{51};

/// A command's words: its name and what comes with it.
inline constexpr std::size_t kMaxCommandWords = 16;
inline constexpr std::size_t kMaxCommandBytes = 1024;        // of all words together
inline constexpr std::size_t kMaxCommandAnswerBytes = 1024;  // of an answer's text

/// A device carries a number out once, in rising order; asked again it gives the answer that it gave.
struct Command {
  std::uint64_t number = 0;  // never 0
  std::vector<std::string> words{};
};

struct CommandAnswer {
  std::uint64_t number = 0;
  bool ok = false;
  std::string text{};  // for people
};

std::string to_json(const Command&);
Outcome<void> from_json(std::string_view text, Command& into);
std::string to_json(const CommandAnswer&);
Outcome<void> from_json(std::string_view text, CommandAnswer& into);

}  // namespace gearbox::wire
