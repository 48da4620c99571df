#include "region.hpp"

namespace gearbox::collective {

Layout layout_of(std::span<const std::uint32_t> members, std::uint32_t channels, std::uint64_t slot_bytes) {
  if (members.size() > kMostGroups || channels > kMostChannels || slot_bytes == 0 || slot_bytes > kMostSlotBytes ||
      slot_bytes % kLine != 0) {
    return {};
  }
  Layout layout;
  layout.slot_bytes = slot_bytes;
  std::uint64_t at = (sizeof(Header) + kLine - 1) / kLine * kLine;
  for (const std::uint32_t count : members) {
    if (count == 0 || count > kMostMembers) return {};
    layout.members.push_back(count);
    layout.group_state.push_back(at);
    at += sizeof(GroupState);
    layout.group_slots.push_back(at);
    at += std::uint64_t{2} * count * slot_bytes;
  }
  for (std::uint32_t i = 0; i < channels; ++i) {
    layout.channel_state.push_back(at);
    at += sizeof(ChannelState);
    layout.channel_slots.push_back(at);
    at += 2 * slot_bytes;
  }
  layout.total = at;
  return layout;
}

}  // namespace gearbox::collective
