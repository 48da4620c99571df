// versions.hpp: which of two versions of a model is newer, and which versions a step may use.
//
//   latest, or nothing   any
//   1.2                  exactly that one
//   >=1.2,<2             a range: each of the comparisons must hold (>=  >  <=  <  =  !=)
//   ~1.2                 from 1.2 on, as long as its last part but one stays: 1.2, 1.2.9, not 1.3 (~1: not 2)
//   1.*                  those that begin with the parts before the star
#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace gearbox::config {

/// Part by part between the dots, numbers as numbers ("1.10" after "1.9"); a part that is no number comes before one
/// that is.
std::strong_ordering compare_versions(std::string_view a, std::string_view b);

/// What kind of choice `asked` is.
enum class Asked { latest, exact, range };
Asked kind_of(std::string_view asked);

/// What is wrong with `asked`, and what would be right; empty when it can be read.
std::string asked_fault(std::string_view asked);

/// May a step that asks for `asked` use `version`? Never, when asked_fault() has something to say. Allocates nothing:
/// it is asked for each request. "2.rc1" is older than "2", and still none of those before 2: "<2" leaves it out.
bool admits(std::string_view asked, std::string_view version);

}  // namespace gearbox::config
