// values.hpp: single values that several tables share. Private to this room. Each adds its faults to the table's
// document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.hpp"
#include "gearbox/toml/document.hpp"

namespace gearbox::config {

/// Where a URL stands: a listening one may have port 0.
enum class UrlUse { listen, dial };

/// "tcp://127.0.0.1:7600", "tcp://[::1]:7600"; of other schemes only the form SCHEME://REST is checked, the rest is the
/// transport's.
std::string read_url(const toml::Table& table, std::string_view key, std::string_view fallback, UrlUse use);

/// What is wrong with `url`; empty when nothing is.
std::string url_fault(std::string_view url, UrlUse use);

/// "tcp://0.0.0.0:7601", "tcp://[::]:7601" and other spellings: one can listen there, but not dial it.
bool is_wildcard(std::string_view url);

/// "", "cpu", "cuda:0" or several with commas.
std::string read_devices(const toml::Table& table, std::string_view key);

milliseconds read_ms(const toml::Table& table, std::string_view key, milliseconds fallback, std::int64_t lowest,
                     std::int64_t highest);
std::uint32_t read_count(const toml::Table& table, std::string_view key, std::uint32_t fallback, std::int64_t lowest,
                         std::int64_t highest);
std::uint64_t read_mb(const toml::Table& table, std::string_view key, std::uint64_t fallback_bytes,
                      std::int64_t lowest_mb, std::int64_t highest_mb);

}  // namespace gearbox::config
