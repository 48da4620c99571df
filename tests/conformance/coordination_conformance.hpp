// coordination_conformance.hpp: what coordination.hpp promises, as checks that every store's test runs against a store
// that is there.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "gearbox/plugin/coordination.hpp"

namespace gearbox::test {

inline constexpr milliseconds kConformanceTtl{1'000};

inline plugin::LeaseWish wish(std::string_view name, std::string_view holder, std::uint64_t term = 0,
                              std::string_view home = "its-home") {
  return {name, holder, home, kConformanceTtl, term, 0};
}

inline Instant soon() {
  return after(Clock::now(), milliseconds{5'000});
}

/// The answer; nothing granted, with a failed check, when there is none.
inline plugin::LeaseAnswer asked(plugin::Coordination& store, const plugin::LeaseWish& wish) {
  const auto answer = store.ask(wish, soon());
  EXPECT_TRUE(answer) << answer.error().detail;
  return answer ? answer.value() : plugin::LeaseAnswer{};
}

/// `one` and `other` are two objects of the same, empty store; it takes some seconds.
inline void conforms(plugin::Coordination& one, plugin::Coordination& other) {
  const auto nobody = one.look("lead", soon());
  ASSERT_TRUE(nobody) << nobody.error().detail;
  EXPECT_EQ(nobody.value().holder, "");
  EXPECT_FALSE(nobody.value().granted);

  const plugin::LeaseAnswer first = asked(one, wish("lead", "a"));
  ASSERT_TRUE(first.granted);
  EXPECT_GE(first.term, 1U);
  EXPECT_EQ(first.holder, "a");
  const plugin::LeaseAnswer refused = asked(other, wish("lead", "b"));
  EXPECT_FALSE(refused.granted);
  EXPECT_EQ(refused.holder, "a");
  EXPECT_EQ(refused.term, first.term);
  const auto seen = other.look("lead", soon());
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen.value().holder, "a");
  EXPECT_EQ(seen.value().term, first.term);
  EXPECT_FALSE(asked(other, wish("lead", "a", 0, "elsewhere")).granted) << "called alike by mistake";

  const plugin::LeaseAnswer renewed = asked(one, wish("lead", "a", first.term));
  EXPECT_TRUE(renewed.granted);
  EXPECT_EQ(renewed.term, first.term);
  const plugin::LeaseAnswer by_other = asked(other, wish("lead", "a", first.term));
  EXPECT_TRUE(by_other.granted) << "by an object that was made anew";
  EXPECT_EQ(by_other.term, first.term);

  const plugin::LeaseAnswer next_life = asked(other, wish("lead", "a"));
  EXPECT_TRUE(next_life.granted) << "a new life need not wait";
  EXPECT_GT(next_life.term, first.term);
  EXPECT_FALSE(asked(one, wish("lead", "a", first.term)).granted) << "the life before it";

  const auto too_late = one.ask(wish("late", "a"), Clock::now() - milliseconds{1});
  ASSERT_FALSE(too_late);
  EXPECT_EQ(too_late.error().code, Errc::timeout);
  EXPECT_EQ(one.look("late", soon()).value().term, 0U);

  EXPECT_TRUE(other.release(wish("lead", "a", first.term), soon())) << "of another term: nothing happens";
  EXPECT_FALSE(asked(one, wish("lead", "b")).granted);
  EXPECT_TRUE(other.release(wish("lead", "a", next_life.term), soon()));
  const plugin::LeaseAnswer taken = asked(one, wish("lead", "b"));
  EXPECT_TRUE(taken.granted) << "given back";
  EXPECT_GT(taken.term, next_life.term);

  plugin::LeaseWish high = wish("another", "a");
  high.above = 41;
  EXPECT_EQ(asked(one, high).term, 42U);

  // Nobody renews it: another one gets it, not before it is over, and the one before does not get it back.
  const Instant began = Clock::now();
  const plugin::LeaseAnswer last = asked(one, wish("lead", "b", taken.term));
  EXPECT_TRUE(last.granted);
  plugin::LeaseAnswer over;
  while (!over.granted && Clock::now() < after(began, milliseconds{20'000})) {
    over = asked(other, wish("lead", "c"));
  }
  ASSERT_TRUE(over.granted) << "it never ended";
  EXPECT_GE(Clock::now() - began, kConformanceTtl);
  EXPECT_GT(over.term, last.term);
  EXPECT_FALSE(asked(one, wish("lead", "b", last.term)).granted);
}

}  // namespace gearbox::test
