// reading.hpp: the steps of load(), in their order. Private to this room.
#pragma once

#include <string_view>

#include "config/config.hpp"
#include "gearbox/toml/document.hpp"

namespace gearbox::config {

/// gearbox.toml: everything but tasks and models; workers and environments are held against each other and
/// `config.models`.
void read_main(const toml::Document& document, Config& config);

/// The tables of [[node.sinks]]; which tasks there are is known later: check_sinks().
void read_sinks(const toml::Table& node, std::vector<SinkConfig>& sinks);
/// The tasks that they name are there. `document`: gearbox.toml.
void check_sinks(const toml::Document& document, const Config& config);

/// [gears]
void read_gears(const toml::Table& table, GearsConfig& gears);

/// tasks/`stem`.toml, held against `config.models`.
void read_task(const toml::Document& document, std::string_view stem, Config& config);

}  // namespace gearbox::config
