// Each JSON text that comes over a wire or a socket: the first byte says which.
#include "gearbox/shm/attach.hpp"
#include "messages.hpp"

namespace gearbox::fuzz {
namespace {

void read_attach(std::string_view json) {
  const auto first = shm::attach_body_from(json);
  if (!first) return;
  const std::string written = shm::to_json(first.value());
  const auto second = shm::attach_body_from(written);
  require(second && shm::to_json(second.value()) == written, "a worker's message that was read can be written");
}

}  // namespace
}  // namespace gearbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gearbox;
  fuzz::Input input(data, size);
  const auto kind = input.take<std::uint8_t>();
  const std::string_view json = input.text();
  switch (kind % 13) {
    case 0:
      fuzz::read_message<wire::Hello>(json);
      break;
    case 1:
      fuzz::read_message<wire::HelloOk>(json);
      break;
    case 2:
      fuzz::read_message<wire::Enrol>(json);
      break;
    case 3:
      fuzz::read_message<wire::Locate>(json);
      break;
    case 4:
      fuzz::read_message<wire::Located>(json);
      break;
    case 5:
      fuzz::read_message<wire::ErrorMessage>(json);
      break;
    case 6:
      fuzz::read_message<wire::Submit>(json);
      break;
    case 7:
      fuzz::read_message<wire::ResultMessage>(json);
      break;
    case 8:
      fuzz::read_message<wire::PartMessage>(json);
      break;
    case 9:
      fuzz::read_message<wire::NodeReport>(json);
      break;
    case 10:
      fuzz::read_message<wire::ReportOk>(json);
      break;
    case 11:
      fuzz::read_message<wire::Ticket>(json);
      break;
    default:
      fuzz::read_attach(json);
      break;
  }
  return 0;
}
