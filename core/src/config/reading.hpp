// reading.hpp: the steps of load(), in their order. Private to this room.
#pragma once

#include <string_view>

#include "config/config.hpp"
#include "gearbox/toml/document.hpp"

namespace gearbox::config {

/// gearbox.toml: everything but tasks and models; workers and environments are held against each other and
/// `config.models`.
void read_main(const toml::Document& document, Config& config);

/// tasks/`stem`.toml, held against `config.models`.
void read_task(const toml::Document& document, std::string_view stem, Config& config);

/// Is the task a graph that can run: each source exists earlier, is a list where it must be and only there, fits the
/// input that it feeds, and each input of each model is fed?
void check_graph(const toml::Table& root, const TaskConfig& task, const Config& config);

/// A step whose model streams has one call, at most one in a task, and feeds nothing but the task's result.
void check_streams(const toml::Table& root, const TaskConfig& task, const Config& config);

}  // namespace gearbox::config
