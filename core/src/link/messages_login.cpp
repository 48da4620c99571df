// Who is there: hello, enrol, and the error that either may get.
#include "gearbox/wire/messages.hpp"
#include "link/json_reader.hpp"
#include "link/json_writer.hpp"

namespace gearbox::wire {
using link::JsonWriter;
using link::ObjectReader;

namespace {
constexpr std::size_t kWordBytes = 256;  // roles, names, hex signatures: anything longer is no honest one
constexpr std::size_t kTicketBytes = 32 * 1024;
constexpr std::size_t kPasswordBytes = 1024;
constexpr std::size_t kDetailBytes = 2048;  // an error quotes; it does not carry data
}  // namespace

std::string to_json(const Hello& m) {
  return JsonWriter()
      .add("role", m.role)
      .add("user", m.user)
      .add("key", m.key)
      .add("signature", m.signature)
      .add("ticket", m.ticket)
      .add("agent", m.agent)
      .add("keep", m.keep)
      .take();
}
Outcome<void> from_json(std::string_view text, Hello& into) {
  return link::read_message<Hello>(text, into, [](ObjectReader& r, Hello& m) {
    r.read("role", m.role, kWordBytes);
    r.read("user", m.user, kWordBytes);
    r.read("key", m.key);
    r.read("signature", m.signature, kWordBytes);
    r.read("ticket", m.ticket, kTicketBytes);
    r.read("agent", m.agent, kWordBytes);
    r.read("keep", m.keep);
  });
}

std::string to_json(const HelloOk& m) {
  return JsonWriter().add("name", m.name).add("idle_ms", m.idle_ms).add("max_upload_bytes", m.max_upload_bytes).take();
}
Outcome<void> from_json(std::string_view text, HelloOk& into) {
  return link::read_message<HelloOk>(text, into, [](ObjectReader& r, HelloOk& m) {
    r.read("name", m.name, kWordBytes);
    r.read("idle_ms", m.idle_ms);
    r.read("max_upload_bytes", m.max_upload_bytes);
  });
}

std::string to_json(const Enrol& m) {
  constexpr std::size_t kEscaped = 6;  // bytes that one may become
  const std::size_t texts = m.user.size() + m.password.size() + m.device.size() + m.signature.size();
  return JsonWriter(kWordBytes + kEscaped * texts)  // the password lies in this one text only, which can be wiped
      .add("user", m.user)
      .add("password", m.password)
      .add("device", m.device)
      .add("key", m.key)
      .add("signature", m.signature)
      .take();
}
Outcome<void> from_json(std::string_view text, Enrol& into) {
  return link::read_message<Enrol>(text, into, [](ObjectReader& r, Enrol& m) {
    r.read("user", m.user, kWordBytes);
    r.read("password", m.password, kPasswordBytes);
    r.read("device", m.device, kWordBytes);
    r.read("key", m.key);
    r.read("signature", m.signature, kWordBytes);
  });
}

std::string to_json(const ErrorMessage& m) {
  return JsonWriter()
      .add("code", m.code)
      .add("name", m.name)
      .add("detail", m.detail)
      .add("retry_after_ms", m.retry_after_ms)
      .take();
}
Outcome<void> from_json(std::string_view text, ErrorMessage& into) {
  return link::read_message<ErrorMessage>(text, into, [](ObjectReader& r, ErrorMessage& m) {
    r.read("code", m.code);
    r.read("name", m.name, kWordBytes);
    r.read("detail", m.detail);
    r.read("retry_after_ms", m.retry_after_ms);
  });
}

ErrorMessage to_message(const Error& error, std::uint32_t retry_after_ms) {
  ErrorMessage message;
  message.code = static_cast<std::uint16_t>(error.code);
  message.name = name_of(error.code);
  message.detail = error.detail;
  if (message.detail.size() > kDetailBytes) {
    std::size_t end = kDetailBytes;
    while (end > 0 && (static_cast<unsigned char>(message.detail[end]) & 0xC0U) == 0x80U)
      --end;  // not inside a character
    message.detail.resize(end);
    message.detail += "...";
  }
  message.retry_after_ms = retry_after_ms;
  return message;
}

Error to_error(const ErrorMessage& message) {
  Error error;
  error.code = static_cast<Errc>(message.code);  // a later version's number stays what it is
  error.detail = message.detail;
  if (name_of(error.code) == "unknown") error.detail = message.name + ": " + message.detail;
  return error;
}

}  // namespace gearbox::wire
