// descriptor.hpp: the one symbol that a plugin's library exports, and the macro that makes it.
#pragma once

#include <boost/version.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/options.hpp"

namespace gearbox::plugin {

inline constexpr std::uint64_t kMagic = 0x31'4E'47'4C'50'58'42'47ULL;  // "GBXPLGN1" in memory, read little-endian

/// Values are for good. Later kinds: gear, sink, coordination, door.
enum class Kind : std::uint32_t {
  transport = 1,
  balancer = 2,
  codec = 3,
  gear = 4,
  sink = 5,
  coordination = 6,
  door = 7
};

// What must be the same on both sides for C++ objects to cross: compiler, library ABI, assertions, sanitizer, Boost.
#define GEARBOX_STR2(x) #x
#define GEARBOX_STR(x) GEARBOX_STR2(x)
#if defined(__clang__)
#define GEARBOX_ABI_COMPILER "clang" GEARBOX_STR(__clang_major__)
#else
#define GEARBOX_ABI_COMPILER "gcc" GEARBOX_STR(__GNUC__)
#endif
#if defined(__SANITIZE_ADDRESS__)
#define GEARBOX_ABI_SANITIZER "asan"
#elif defined(__SANITIZE_THREAD__)
#define GEARBOX_ABI_SANITIZER "tsan"
#else
#define GEARBOX_ABI_SANITIZER "none"
#endif
#if defined(_GLIBCXX_ASSERTIONS)
#define GEARBOX_ABI_ASSERT "assert"
#else
#define GEARBOX_ABI_ASSERT "noassert"
#endif
#define GEARBOX_ABI_TAG                                                                          \
  GEARBOX_ABI_COMPILER "-cxx11abi" GEARBOX_STR(_GLIBCXX_USE_CXX11_ABI) "-" GEARBOX_ABI_ASSERT    \
                                                                       "-" GEARBOX_ABI_SANITIZER \
                                                                       "-boost" GEARBOX_STR(BOOST_VERSION)

/// Exported as `gearbox_plugin`. Only plain data: it is read before any code of the plugin is trusted. Fields are only
/// ever added at the end; struct_bytes tells which are there.
struct Descriptor {
  std::uint64_t magic;
  std::uint32_t struct_bytes;
  Kind kind;
  std::uint32_t api;  // the kind's kXxxApi
  std::uint32_t option_count;
  const char* abi_tag;
  const char* name;
  const char* version;
  const char* summary;
  const OptionSpec* options;
  const void* make;  // Outcome<std::unique_ptr<KindClass>> (*)(const Options&)
};
static_assert(std::is_standard_layout_v<Descriptor>);

/// The class, api number and make function's type of each kind; specialised in the kind's header.
template <Kind kind>
struct KindTraits;

template <Kind kind>
using Make = Outcome<std::unique_ptr<typename KindTraits<kind>::Class>> (*)(const Options&);

template <class T>
constexpr std::uint32_t count_of(const T& table) {
  return static_cast<std::uint32_t>(sizeof(table) / sizeof(table[0]));
}

/// For a plugin without options: GEARBOX_PLUGIN(..., ::gearbox::plugin::kNoOptions, make).
struct NoOptions {
  constexpr operator const OptionSpec*() const { return nullptr; }
};
inline constexpr NoOptions kNoOptions;
constexpr std::uint32_t count_of(const NoOptions&) {
  return 0;
}
/// A plugin without options gives nullptr for its table.
constexpr std::uint32_t count_of(std::nullptr_t) {
  return 0;
}

}  // namespace gearbox::plugin

#define GEARBOX_PLUGIN(kind_, name_, version_, summary_, options_, make_)                                        \
  extern "C" __attribute__((visibility("default"), used)) const ::gearbox::plugin::Descriptor gearbox_plugin = { \
      ::gearbox::plugin::kMagic,                                                                                 \
      static_cast<std::uint32_t>(sizeof(::gearbox::plugin::Descriptor)),                                         \
      ::gearbox::plugin::Kind::kind_,                                                                            \
      ::gearbox::plugin::KindTraits<::gearbox::plugin::Kind::kind_>::kApi,                                       \
      ::gearbox::plugin::count_of(options_),                                                                     \
      GEARBOX_ABI_TAG,                                                                                           \
      name_,                                                                                                     \
      version_,                                                                                                  \
      summary_,                                                                                                  \
      options_,                                                                                                  \
      reinterpret_cast<const void*>(static_cast<::gearbox::plugin::Make<::gearbox::plugin::Kind::kind_>>(&(make_)))};
