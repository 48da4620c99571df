#include "cli/gpu_page.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace gearbox::cli {
namespace {

std::string page_of(const char* node) {
  return gpu_page(boost::json::parse(node).as_object(), false);
}

TEST(GpuPage, TellsWhoIsWhereAndWhoWaitsForWhat) {
  const std::string page = page_of(R"({
    "gpus": {"nvml": "answers", "reason": "", "list": [
      {"index": 0, "uuid": "GPU-a", "name": "Fake", "memory_total_bytes": 10485760000, "memory_used_bytes": 1048576000,
       "left_mb": 3000, "busy_percent": 12, "workers": [7, 9], "error": ""},
      {"index": 1, "uuid": "GPU-b", "name": "Fake", "memory_total_bytes": 0, "memory_used_bytes": 0,
       "left_mb": 0, "busy_percent": null, "workers": [], "error": "GPU is \u001blost"}]},
    "workers": [
      {"id": 7, "slot": 1, "model": "large", "version": "1", "devices": "cuda", "gpus": [0], "gpu_memory_mb": 6000,
       "state": "ready", "reason": ""},
      {"id": 9, "slot": 2, "model": "alone", "version": "2", "devices": "cuda:0,cuda:5", "gpus": [0, "5"],
       "gpu_memory_mb": 0, "state": "loading", "reason": ""},
      {"id": 0, "slot": 3, "model": "late", "version": "1", "devices": "cuda", "gpus": [], "gpu_memory_mb": 5000,
       "state": "waiting", "reason": "no GPU has 5000 MB free; most: GPU 0 with 3000"},
      {"id": 4, "slot": 4, "model": "elsewhere", "version": "1", "devices": "cpu", "gpus": [], "gpu_memory_mb": 1,
       "state": "ready", "reason": ""}]})");
  EXPECT_EQ(
      page,
      "GPU  name    memory     used     left  busy  workers                               reason\n"
      "  0  Fake  10000 MB  1000 MB  3000 MB  12 %  worker-1 (6000 MB), worker-2 (whole)\n"
      "  1  Fake                        0 MB                                              GPU is \\x1blost\n"
      "\n"
      "worker    model  version  devices         GPU    needs  state    reason\n"
      "worker-1  large  1        cuda              0  6000 MB  ready\n"
      "worker-2  alone  2        cuda:0,cuda:5  0, 5    whole  loading\n"
      "worker-3  late   1        cuda                 5000 MB  waiting  no GPU has 5000 MB free; most: GPU 0 with "
      "3000\n");
}

TEST(GpuPage, SaysThatThereIsNoNvmlOrThatItFell) {
  EXPECT_EQ(page_of(R"({"workers": [{"id": 1, "slot": 1, "model": "m", "version": "1", "devices": "cuda:1,cuda:3",
                                    "gpus": ["1", "3"], "gpu_memory_mb": 10, "state": "ready", "reason": ""}],
                        "gpus": {"nvml": "none", "reason": "no such file", "list": []}})"),
            "GPUs: no figures, there is no NVML (no such file)\n"
            "\n"
            "worker    model  version  devices                       GPU  needs  state\n"
            "worker-1  m      1        cuda:1,cuda:3  1, 3 (not checked)  10 MB  ready\n");
  EXPECT_EQ(page_of(R"({"gpus": {"nvml": "lost", "reason": "Unknown Error", "list": []}})"),
            "GPUs: NVML answers no more (Unknown Error)\n");
  EXPECT_EQ(page_of(R"({"gpus": {"nvml": "answers", "reason": "", "list": []}})"), "GPUs: NVML tells of none\n");
  EXPECT_EQ(page_of(R"({"gpus": {"nvml": "not yet", "reason": "", "list": []}})"), "");
}

TEST(GpuPage, IsEmptyWhereThereIsNoNvmlAndNobodyWantsAGpu) {
  EXPECT_EQ(page_of(R"({"workers": [{"id": 1, "slot": 1, "model": "m", "version": "1", "devices": "cpu", "gpus": []}],
                        "gpus": {"nvml": "none", "reason": "no such file", "list": []}})"),
            "");
}

TEST(GpuPage, IsEmptyForANodeThatTellsNothing) {
  EXPECT_EQ(page_of(R"({"workers": []})"), "");
}

}  // namespace
}  // namespace gearbox::cli
