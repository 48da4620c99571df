#include "config/pools.hpp"

#include <algorithm>

namespace gearbox::config {

bool classes_requests(const PoolConfig& pool) {
  return !pool.tenants.empty() || pool.least_bytes > 0 || pool.most_bytes > 0;
}

const PoolConfig* pool_for(const GearsConfig& gears, std::uint32_t tenant, std::uint64_t bytes) {
  const auto takes = [&](const PoolConfig& pool) {
    const bool its_tenant =
        pool.tenants.empty() || std::find(pool.tenants.begin(), pool.tenants.end(), tenant) != pool.tenants.end();
    return classes_requests(pool) && its_tenant && bytes >= pool.least_bytes &&
           (pool.most_bytes == 0 || bytes <= pool.most_bytes);
  };
  const auto found = std::find_if(gears.pools.begin(), gears.pools.end(), takes);
  return found == gears.pools.end() ? nullptr : &*found;
}

const PoolConfig* find_pool(const GearsConfig& gears, std::string_view name) {
  const auto found =
      std::find_if(gears.pools.begin(), gears.pools.end(), [&](const PoolConfig& pool) { return pool.name == name; });
  return found == gears.pools.end() ? nullptr : &*found;
}

}  // namespace gearbox::config
