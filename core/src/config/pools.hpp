// pools.hpp: which pool a request belongs to.
#pragma once

#include <cstdint>
#include <string_view>

#include "config/config.hpp"

namespace gearbox::config {

/// Does the pool say whose requests it serves first?
bool classes_requests(const PoolConfig& pool);

/// The first pool, in the file's order, that a request of `tenant` with `bytes` of inputs belongs to; null: none.
const PoolConfig* pool_for(const GearsConfig& gears, std::uint32_t tenant, std::uint64_t bytes);

const PoolConfig* find_pool(const GearsConfig& gears, std::string_view name);

}  // namespace gearbox::config
