#include "spool_options.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <map>

#include "gearbox/base/text.hpp"

namespace gearbox::client {

namespace {

constexpr char kRunFooter[] =
    "One process, two sides: pictures from --watch or --camera, or from `pi_client spool add`, go into the spool, a "
    "folder on disk; what lies there is sent, however long central or the node are away, and each answer is written "
    "to the answers before its picture leaves the spool. SIGTERM ends it in order; the spool stays. --central may be "
    "repeated: standbys are asked in turn.\n"
    "Example:\n"
    "  pi_client run --spool /var/spool/gearbox --central tcp://broker.example:7600 --server-key KEY --user anna "
    "--task count-animals --watch /srv/pictures --after delete\n"
    "  pi_client run ... --camera /dev/video0 --every 200 --policy newest-only\n"
    "  pi_client run ... --max-rate 200000 --max-per-minute 30";

constexpr char kSpoolFooter[] =
    "Example:\n"
    "  pi_client spool add --spool /var/spool/gearbox --task count-animals *.jpg\n"
    "  pi_client spool list --spool /var/spool/gearbox\n"
    "  pi_client spool drop --spool /var/spool/gearbox 8c1f0d2e5b7a4960d3e2f1a0b9c8d7e6";

constexpr std::int64_t kLongestMs = std::int64_t{400} * 24 * 3600 * 1000;

std::string check_task(const std::string& text) {
  const Outcome<void> name = check_name("task", text);
  return name ? std::string() : name.error().detail;
}

std::string check_tensor(const std::string& text) {
  const Outcome<void> name = check_name("tensor", text);
  return name ? std::string() : name.error().detail;
}

std::string check_id(const std::string& text) {
  return request_id_from(text) ? std::string() : "'" + escaped(text, 80) + "' is no request id: 32 hexadecimal digits";
}

std::string check_after(const std::string& text) {
  const bool good = text == "delete" || text == "keep" || (text.rfind("move:", 0) == 0 && text.size() > 5);
  return good ? std::string() : "'" + escaped(text, 80) + "' is none of delete, keep, move:DIR";
}

std::string check_size(const std::string& text) {
  unsigned width = 0;
  unsigned height = 0;
  int used = 0;
  const bool good = std::sscanf(text.c_str(), "%5ux%5u%n", &width, &height, &used) == 2 &&
                    static_cast<std::size_t>(used) == text.size() && width > 0 && height > 0;
  return good ? std::string() : "'" + escaped(text, 80) + "' is not WIDTHxHEIGHT";
}

}  // namespace

struct SpoolWords::State {
  explicit State(SpoolOptions* to) : into(to) {}

  void add_folder(CLI::App* to) {
    to->add_option("--spool", into->folder, "the folder that holds what waits")->required()->type_name("DIR");
  }

  void add_bounds(CLI::App* to) {
    static const std::map<std::string, SpoolPolicy> kPolicies = {{"keep-all", SpoolPolicy::keep_all},
                                                                 {"drop-oldest", SpoolPolicy::drop_oldest},
                                                                 {"newest-only", SpoolPolicy::newest_only}};
    to->add_option_function<std::string>(
          "--policy", [this](const std::string& name) { into->limits.policy = kPolicies.at(name); },
          "when the spool is full: keep-all refuses the newcomer, drop-oldest makes room; newest-only keeps the last "
          "picture alone, for live video")
        ->default_str("keep-all")
        ->type_name("POLICY")
        ->check(CLI::IsMember({"keep-all", "drop-oldest", "newest-only"}));
    to->add_option("--max-items", into->limits.max_items, "the spool holds at most so many")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::size_t{1}, std::size_t{100'000}));
    to->add_option("--max-mb", max_mb, "and so many MiB")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 20));
  }

  void add_request(CLI::App* to) {
    RequestOptions& request = into->request;
    CLI::Option* task = to->add_option("--task", request.task, "what to do with the pictures")
                            ->type_name("NAME")
                            ->check(check_task, "");
    to->add_option("--steps", request.steps_file, "instead of a task, steps of your own")
        ->type_name("FILE.toml")
        ->excludes(task);
    to->add_option("--tensor", request.tensor, "the task's input that they go to")
        ->type_name("NAME")
        ->capture_default_str()
        ->check(check_tensor, "");
    to->add_option("--lossy", lossy, "let raw 8-bit frames travel as JPEG of this quality, where the task allows it")
        ->type_name("QUALITY")
        ->check(CLI::Range(1, 100));
    to->add_option("--priority", priority, "higher goes first, up to what the account may")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(0, 255));
    to->add_option("--deadline-ms", deadline_ms, "time for each request at the node, from when it arrives there")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{3'600'000}));
    to->add_option("--max-age-ms", max_age_ms, "what waited for longer in the spool is not sent any more")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, kLongestMs));
  }

  void add_run(CLI::App* to) {
    add_folder(to);
    add_request(to);
    add_bounds(to);
    CLI::Option* watch =
        to->add_option("--watch", into->watch.folder, "take pictures from this folder, when they are whole")
            ->type_name("DIR");
    to->add_option("--after", after, "what becomes of a picture that was taken: delete, keep, move:DIR")
        ->type_name("WHAT")
        ->capture_default_str()
        ->check(check_after, "")
        ->needs(watch);
    CLI::Option* camera = to->add_option("--camera", into->camera.device,
                                         "take pictures with this camera (V4L2); file:DIR: cycle the pictures there")
                              ->type_name("DEV")
                              ->excludes(watch);
    to->add_option("--every", every_ms, "one picture in so many ms")
        ->type_name("MS")
        ->capture_default_str()
        ->check(CLI::Range(std::int64_t{10}, std::int64_t{86'400'000}))
        ->needs(camera);
    to->add_option("--size", size, "the camera's picture size")->type_name("WxH")->check(check_size, "")->needs(camera);
    to->add_option("--answers", into->answers,
                   "JSON lines go there, - for standard output (default: answers.jsonl in the spool)")
        ->type_name("FILE");
    to->add_option("--out", into->out, "write results other than text to this folder, as .npy")->type_name("DIR");
    to->add_option("--parallel", into->parallel, "requests under way at once")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(1, 64));
    to->add_option("--max-rate", into->max_rate, "upload at most so many bytes in a second")
        ->type_name("BYTES")
        ->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1} << 40));
    to->add_option("--max-per-minute", into->max_per_minute, "begin at most so many requests in a minute")
        ->type_name("N")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}));
    to->add_option("--move-after-ms", move_after_ms,
                   "what a node has acknowledged stays with it; after so long without a word of it, another node does "
                   "it as well, and the first answer counts; 0: never")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::int64_t{0}, kLongestMs));
    to->add_option(
          "--contact-every-ms", contact_every_ms,
          "look in at central so often, for what people ask of this device; 0: only when it is asked for a node")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::int64_t{0}, kLongestMs));
    to->add_flag("--until-empty", into->until_empty, "end when the spool is empty")->excludes(watch)->excludes(camera);
    to->footer(kRunFooter);
  }

  SpoolOptions* into;
  CLI::App* run = nullptr;
  CLI::App* add = nullptr;
  CLI::App* list = nullptr;
  CLI::App* drop = nullptr;
  std::uint64_t max_mb = 1'024;
  int lossy = 0;
  int priority = 0;
  std::int64_t deadline_ms = 0;
  std::int64_t max_age_ms = 0;
  std::int64_t every_ms = 1'000;
  std::int64_t move_after_ms = 60'000;
  std::int64_t contact_every_ms = 60'000;
  std::string after = "keep";
  std::string size;
};

SpoolWords::SpoolWords(CLI::App& app, const std::function<void(CLI::App*)>& add_central, SpoolOptions* into)
    : state_(std::make_unique<State>(into)) {
  State& state = *state_;
  state.run = app.add_subcommand("run", "Sends what lies in a spool, and fills it from a folder or a camera.");
  add_central(state.run);
  state.add_run(state.run);

  CLI::App* spool = app.add_subcommand("spool", "Looks after a spool; also while `pi_client run` works on it.");
  spool->require_subcommand(1);
  spool->footer(kSpoolFooter);
  state.add = spool->add_subcommand("add", "Puts pictures into the spool; prints their request ids.");
  state.add_folder(state.add);
  state.add_request(state.add);
  state.add_bounds(state.add);
  state.add->add_option("FILE", into->files, "JPEG, PNG, .npy or PNM; each is one request")->required()->type_name("");
  state.list = spool->add_subcommand("list", "Lists what waits, oldest first.");
  state.add_folder(state.list);
  state.drop = spool->add_subcommand("drop", "Removes requests from the spool, unanswered.");
  state.add_folder(state.drop);
  CLI::Option* ids = state.drop->add_option("ID", into->ids, "request ids, as `spool list` shows them")
                         ->type_name("")
                         ->check(check_id, "");
  state.drop->add_flag("--all", into->all, "all of them")->excludes(ids);
  for (CLI::App* each : {state.add, state.list, state.drop}) {
    each->add_flag("--json", into->json, "one JSON object per request and line");
    each->footer(kSpoolFooter);
  }
}

SpoolWords::~SpoolWords() = default;

bool SpoolWords::run_parsed() const {
  return state_->run->parsed();
}
bool SpoolWords::add_parsed() const {
  return state_->add->parsed();
}
bool SpoolWords::list_parsed() const {
  return state_->list->parsed();
}
bool SpoolWords::drop_parsed() const {
  return state_->drop->parsed();
}

std::string SpoolWords::finish() {
  State& state = *state_;
  SpoolOptions& into = *state.into;
  into.limits.max_bytes = state.max_mb << 20;
  if (state.lossy > 0) into.request.lossy = state.lossy;
  into.request.priority = static_cast<std::uint8_t>(state.priority);
  into.request.deadline = milliseconds(state.deadline_ms);
  into.request.max_age = milliseconds(state.max_age_ms);
  into.move_after = milliseconds(state.move_after_ms);
  into.contact_every = milliseconds(state.contact_every_ms);
  into.camera.every = milliseconds(state.every_ms);
  if (!state.size.empty()) std::sscanf(state.size.c_str(), "%5ux%5u", &into.camera.width, &into.camera.height);
  into.watch.after = state.after == "delete" ? After::remove : state.after == "keep" ? After::keep : After::move;
  if (into.watch.after == After::move) into.watch.move_to = state.after.substr(5);
  const bool takes = add_parsed() || !into.watch.folder.empty() || !into.camera.device.empty();
  if (takes && into.request.task.empty() && into.request.steps_file.empty()) return "--task or --steps is required";
  if (drop_parsed() && into.ids.empty() && !into.all) return "spool drop: ID or --all is required";
  return {};
}

}  // namespace gearbox::client
