// learned_file.hpp: what a node last heard from central, for its next process: so that devices with tickets are served
// also when the node starts while central is away.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::node {

/// A central's channel key, by which the node knows it.
using CentralKey = std::array<std::byte, 32>;

/// Central's time in it is aged on the clock that runs through sleep, so it is good for this boot of the host only.
/// `central` said it: a node that reports to another one must not take its tickets.
/// Public keys and revocations: nothing secret, but whoever could change it could let devices in (mode 0600).
/// Errors: io_error, no_space; the file is then as it was.
Outcome<void> save_learned(const std::filesystem::path& file, const CentralKey& central, const wire::ReportOk& learned);

/// With central's time as it is now. Errors: not_found: there is none, it is of another boot, or an older broker's,
/// which does not tell whose words it has; wrong_server_key: none of `centrals` said it; corrupt_data; io_error.
Outcome<wire::ReportOk> load_learned(const std::filesystem::path& file, const std::vector<CentralKey>& centrals);

}  // namespace gearbox::node
