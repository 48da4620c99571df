// liar.hpp: workers that break the contract on purpose.
#pragma once

#include <filesystem>
#include <string_view>

#include "gearbox/shm/endpoint.hpp"

namespace gearbox::echo {

/// Attaches, answers the probe honestly, then lies to the next call as `how` says: head, tail, head_back, request,
/// attempt, kind, block_offset, block_bytes, block_arena, tensors, text, dtype, rank, shape, tensor_offset,
/// tensor_bytes, name, random; of a streaming call part_of_nothing (of a plain one), part_number, part_again,
/// part_room, part_flood, part_end. Returns only when it cannot attach or the node has gone.
int lie(const std::filesystem::path& node, const shm::WorkerHello& hello, std::string_view how, unsigned seed);

}  // namespace gearbox::echo
