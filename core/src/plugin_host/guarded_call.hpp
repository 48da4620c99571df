// guarded_call.hpp: one call of a plugin: marked in the record, timed, and without a throw that comes out.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/text.hpp"
#include "plugin_host/library.hpp"

namespace gearbox::plugin_host {

inline constexpr Clock::duration kNoBudget = Clock::duration::max();

/// One call of a plugin, from the mark in the record to the count of its time.
class Call {
 public:
  Call(Library& library, const char* function, Instant begun, Instant hung_after)
      : library_(library),
        function_(function),
        mark_(library.record(), library.label(), function, begun, hung_after),
        begun_(Clock::now()) {}  // after the mark: a page of its file that the disk holds is not the plugin's time
  Call(Library& library, const char* function) : Call(library, function, Clock::now()) {}
  Call(Library& library, const char* function, Instant begun)
      : Call(library, function, begun, begun + library.rules().hang.load(std::memory_order_relaxed)) {}

  /// Counts it. Past the budget it is a fault, although what it gave is used: it is here now.
  void ended(Clock::duration budget) {
    const Instant now = Clock::now();
    library_.health().called(now - begun_);
    if (now - begun_ <= budget) return;
    library_.health().fault(
        std::string(function_) + "() took " + std::to_string(elapsed(begun_, now).count() / 1000) + " ms", now);
  }
  Error fault(Errc code, const std::string& what) {
    library_.health().fault(std::string(function_) + "() " + what, Clock::now());
    return Error{code, "plugin " + library_.info().name + ": " + what};
  }

 private:
  Library& library_;
  const char* function_;
  CallRecord::Mark mark_;
  Instant begun_;
};

/// Runs `what`; a throw becomes an error of `code`.
template <class What>
auto without_throw(Call& call, Errc code, What what) -> decltype(what()) {
  try {
    return what();
  } catch (const std::exception& thrown) {
    return call.fault(code, "threw: " + escaped(thrown.what(), 128));
  } catch (...) {
    return call.fault(code, "threw");
  }
}

/// For calls that cannot fail by contract.
template <class T, class What>
T or_else(Library& library, const char* function, T otherwise, What what) {
  Call call(library, function);
  try {
    return what();
  } catch (...) {
    static_cast<void>(call.fault(Errc::plugin_fault, "threw"));
    return otherwise;
  }
}

/// The plugin's object with the library that its code lies in: destroyed in that order, and under the record's eyes.
template <class Class>
struct Held {
  Held(std::shared_ptr<Library> its_library, std::unique_ptr<Class> its_object)
      : library(std::move(its_library)), object(std::move(its_object)) {}
  ~Held() {
    const Call call(*library, "destroy");
    object.reset();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  Clock::duration budget() const { return library->rules().budget.load(std::memory_order_relaxed); }

  std::shared_ptr<Library> library;
  std::unique_ptr<Class> object;
};

}  // namespace gearbox::plugin_host
