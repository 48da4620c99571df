#include "cli/explain_page.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace gearbox::cli {
namespace {

constexpr const char* kFacts = R"({
  "request": "ab000000000000000000000000000001", "device": "DEVICE", "user": "anna\u001b[31m", "task": "read",
  "config": "0123456789abcdef", "state": "done", "node": "node-1", "announced_unix_ms": 0,
  "times": {"wait_us": 10, "upload_us": 1500, "steps_us": 45100, "reply_us": null, "acknowledged_us": null, "total_us": 46610},
  "bytes": {"uploaded": 1000, "plain": 3000, "result": 10},
  "steps": [{"step": "find", "model": "face", "asked": "latest", "state": "done", "version": "1", "newest": "2",
    "version_note": "the newest had no ready worker yet", "at_us": 1510, "took_us": 45000,
    "longest_queue_us": 5000, "longest_run_us": 20000, "calls": {"made": 60, "answered": 60, "failed": 0, "retried": 1, "open": 0, "not_shown": 59},
    "kept": [{"kept": "first", "item": 7, "state": "done", "version": "1", "queue_us": 5000, "worker_queue_us": 100, "run_us": 20000, "attempts": 2, "batch": 1,
      "picks": [
        {"at_us": 1600, "attempt": 1, "chosen": {"worker": 5, "slot": 1, "pid": 41}, "balancer": {"name": "least_loaded", "version": "1.2", "checksum": "3f9a01c2aaaa"},
         "candidates": [{"worker": 5, "slot": 1, "pid": 41, "queued": 0, "running": 1, "capacity": 2, "p95_us": 20000}],
         "excluded": [{"worker": 6, "slot": 2, "pid": 42, "queued": 1, "running": 1, "capacity": 2, "p95_us": 0, "why": "full"},
                      {"worker": 7, "slot": 3, "pid": 43, "why": "runs version 2"}],
         "left_out": 4,
         "failed": {"code": "worker_lost", "reason": "killed by signal 9", "begun": true, "after_us": 3000}},
        {"at_us": 6600, "attempt": 2, "chosen": null, "why": "nobody had a place", "candidates": [], "excluded": []}]}]}]})";

TEST(ExplainPage, ReadsFromTopToBottom) {
  std::string text = kFacts;
  text.replace(text.find("DEVICE"), 6, "e8030000" + std::string(56, '0'));
  const std::string page = explain_page(boost::json::parse(text).as_object(), false);
  for (const char* line : {
           "request    ab000000000000000000000000000001\n",
           "from       anna\\x1b[31m, this host (uid 1000)\n",
           "node       node-1, configuration 0123456789ab\n",
           "of that    waited 0.01 ms for memory or a place, upload 1.5 ms, steps 45.1 ms\n",
           "step find: done, model face 1 (latest was asked for; the newest had no ready worker yet; the newest is "
           "2)\n",
           "60 calls, longest wait 5.0 ms, longest run 20.0 ms, 1 retried\n",
           "  call of item 7 (first), done: waited 5.0 ms until it got its last worker and 0.10 ms at the worker, ran "
           "20.0 ms, in a batch of 1, "
           "version 1\n",
           "    at 1.6 ms: given to worker-1 (pid 41), chosen by least_loaded 1.2 (3f9a01c2",
           "      worker-1   41       0        1              2  20.0 ms  chosen\n",
           "      worker-2   42       1        1              2           excluded: full\n",
           "      worker-3   43                                           excluded: runs version 2\n",
           "      and 4 further workers\n",
           "    worker_lost after 3.0 ms: killed by signal 9 (it was running the call)\n",
           "    at 6.6 ms: it had to wait: nobody had a place\n",
           "  and 59 further calls\n",
       }) {
    EXPECT_NE(page.find(line), std::string::npos) << line << "is not in\n" << page;
  }
}

TEST(ExplainPage, TellsHowLongACallThatWasCutOffHadBeenAtItsWorker) {
  std::string text = R"({"request": "ab", "state": "STATE", ERROR "steps": [{"step": "find", "model": "face",
    "asked": "latest", "state": "cut off", "version": "1", "version_note": "the newest", "at_us": 1000, "took_us": 401000,
    "longest_queue_us": 0, "longest_run_us": 0, "sum_run_us": 0, "longest_open_us": 400000,
    "calls": {"made": 1, "answered": 0, "failed": 0, "retried": 0, "open": 1, "not_shown": 0},
    "kept": [{"kept": "open", "state": "running", "version": "1", "queue_us": 1000, "there_us": 400000, "attempts": 1,
      "picks": []}]}]})";
  const auto page_of = [&](const std::string& state, const std::string& error) {
    std::string facts = text;
    facts.replace(facts.find("STATE"), 5, state);
    facts.replace(facts.find("ERROR"), 5, error);
    return explain_page(boost::json::parse(facts).as_object(), false);
  };
  const std::string over = page_of("failed", R"("error": {"code": "deadline_exceeded", "detail": "its time was up"},)");
  EXPECT_NE(over.find("1 call, longest at its worker without an answer 400.0 ms, 1 open\n"), std::string::npos) << over;
  EXPECT_NE(over.find("  call (open), running: waited 1.0 ms at the node, had been there for 400.0 ms when the request "
                      "ended, version 1\n"),
            std::string::npos)
      << over;
  EXPECT_EQ(over.find("longest run"), std::string::npos) << over;
  const std::string still = page_of("running", "");
  EXPECT_NE(still.find("waited 1.0 ms at the node, has been there for 400.0 ms, version 1\n"), std::string::npos)
      << still;
}

TEST(ExplainPage, OfFactsThatLackMostStillPrints) {
  EXPECT_NE(
      explain_page(
          boost::json::parse(R"({"request": "ab", "steps": [{"step": "x", "state": "not begun"}, 5]})").as_object(),
          false)
          .find("step x: not begun"),
      std::string::npos);
}

}  // namespace
}  // namespace gearbox::cli
