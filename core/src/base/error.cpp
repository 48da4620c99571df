#include "gearbox/base/error.hpp"

namespace gearbox {

std::string_view name_of(Errc code) {
  switch (code) {
    case Errc::internal:
      return "internal";
    case Errc::cancelled:
      return "cancelled";
    case Errc::deadline_exceeded:
      return "deadline_exceeded";
    case Errc::bad_input:
      return "bad_input";
    case Errc::unknown_task:
      return "unknown_task";
    case Errc::no_node:
      return "no_node";
    case Errc::too_large:
      return "too_large";
    case Errc::bad_picture:
      return "bad_picture";
    case Errc::digest_mismatch:
      return "digest_mismatch";
    case Errc::overloaded:
      return "overloaded";
    case Errc::no_space:
      return "no_space";
    case Errc::not_found:
      return "not_found";
    case Errc::bad_name:
      return "bad_name";
    case Errc::auth_failed:
      return "auth_failed";
    case Errc::bad_ticket:
      return "bad_ticket";
    case Errc::expired_ticket:
      return "expired_ticket";
    case Errc::wrong_server_key:
      return "wrong_server_key";
    case Errc::not_allowed:
      return "not_allowed";
    case Errc::rate_limited:
      return "rate_limited";
    case Errc::short_frame:
      return "short_frame";
    case Errc::frame_too_large:
      return "frame_too_large";
    case Errc::bad_frame:
      return "bad_frame";
    case Errc::unsupported_version:
      return "unsupported_version";
    case Errc::decrypt_failed:
      return "decrypt_failed";
    case Errc::closed:
      return "closed";
    case Errc::timeout:
      return "timeout";
    case Errc::io_error:
      return "io_error";
    case Errc::not_gearbox:
      return "not_gearbox";
    case Errc::unreachable:
      return "unreachable";
    case Errc::model_failed:
      return "model_failed";
    case Errc::worker_lost:
      return "worker_lost";
    case Errc::result_too_large:
      return "result_too_large";
    case Errc::bad_result:
      return "bad_result";
    case Errc::model_unavailable:
      return "model_unavailable";
    case Errc::quarantined:
      return "quarantined";
    case Errc::shutting_down:
      return "shutting_down";
    case Errc::stream_broken:
      return "stream_broken";
    case Errc::bad_config:
      return "bad_config";
    case Errc::bad_plugin:
      return "bad_plugin";
    case Errc::plugin_fault:
      return "plugin_fault";
    case Errc::corrupt_data:
      return "corrupt_data";
  }
  return "unknown";
}

std::string describe(const Error& error) {
  std::string text(name_of(error.code));
  if (!error.detail.empty()) {
    text += ": ";
    text += error.detail;
  }
  return text;
}

}  // namespace gearbox
