// What people ask a device to do: command and its answer.
#include "gearbox/wire/command.hpp"
#include "link/json_reader.hpp"
#include "link/json_writer.hpp"

namespace gearbox::wire {
using link::JsonWriter;
using link::ObjectReader;

std::string to_json(const Command& m) {
  return JsonWriter().add("number", m.number).add("words", m.words).take();
}
Outcome<void> from_json(std::string_view text, Command& into) {
  return link::read_message<Command>(text, into, [](ObjectReader& r, Command& m) {
    r.read("number", m.number);
    r.read("words", m.words, kMaxCommandWords);
    std::size_t bytes = 0;
    for (const std::string& word : m.words) bytes += word.size();
    if (bytes > kMaxCommandBytes) r.fail("words", "is too long");
    if (m.words.empty()) r.fail("words", "is empty");
    if (m.number == 0) r.fail("number", "is 0");
  });
}

std::string to_json(const CommandAnswer& m) {
  return JsonWriter().add("number", m.number).add("ok", m.ok).add("text", m.text).take();
}
Outcome<void> from_json(std::string_view text, CommandAnswer& into) {
  return link::read_message<CommandAnswer>(text, into, [](ObjectReader& r, CommandAnswer& m) {
    r.read("number", m.number);
    r.read("ok", m.ok);
    r.read("text", m.text, kMaxCommandAnswerBytes);
  });
}

}  // namespace gearbox::wire
