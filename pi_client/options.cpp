#include "options.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdint>
#include <sstream>

#include "gearbox/base/ids.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::client {

namespace {

constexpr char kFooter[] =
    "Exit codes: 0 all done, 1 a request or the enrolment failed, 2 wrong usage or no device key.\n"
    "Example:\n"
    "  pi_client enrol --central tcp://broker.example:7600 --server-key KEY --user anna\n"
    "  pi_client send  --central tcp://broker.example:7600 --server-key KEY --user anna --task read-text tag.jpg\n"
    "  pi_client run   --spool DIR --central ... --task read-text --watch PICTURES      (for unattended devices)\n"
    "KEY is what `broker keys show` prints on central: 64 hexadecimal digits.";

constexpr char kEnrolFooter[] =
    "Asks for the password without showing it, makes the device's key (mode 0600) and registers it. Once for each "
    "device.\n"
    "Example:\n"
    "  pi_client enrol --central tcp://broker.example:7600 --server-key KEY --user anna --device barn-2\n"
    "  pi_client enrol ... --password-file /run/secrets/anna      (or - for standard input)";

constexpr char kSendFooter[] =
    "JPEG and PNG travel as they are; .npy and PNM (8 and 16 bit) as raw frames, coded without loss where that saves "
    "bytes.\n"
    "Each FILE is one request; all share one connection. After a lost connection uploads go on where the node has "
    "them.\n"
    "Results go to standard output, the table of times and the progress bar to standard error.\n"
    "Example:\n"
    "  pi_client send --central tcp://broker.example:7600 --server-key KEY --user anna --task read-text *.jpg --json\n"
    "  pi_client send ... --task measure --input color=c.ppm --input depth=d.npy --out results/\n"
    "  pi_client send ... --steps my_steps.toml photo.jpg\n"
    "  pi_client send ... --task count-animals frame.ppm --lossy 90 --deadline-ms 2000\n"
    "  pi_client send ... --task tell-story --tensor prompt prompt.npy --stream";

constexpr char kKeyFooter[] = "Example:\n  pi_client key show";

constexpr std::size_t kMostCentrals = 8;

/// CLI11 wants a message on failure and an empty string when all is well.
std::string check_url(const std::string& url) {
  constexpr std::string_view kScheme = "tcp://";
  if (url.rfind(kScheme, 0) != 0) return "'" + escaped(url, 80) + "' is no address: expected tcp://HOST:PORT";
  const std::size_t colon = url.rfind(':');
  if (colon <= kScheme.size() || colon + 1 == url.size()) return "'" + escaped(url, 80) + "' lacks :PORT";
  unsigned port = 0;
  for (const char c : url.substr(colon + 1)) {
    if (c < '0' || c > '9' || (port = port * 10 + static_cast<unsigned>(c - '0')) > 65535) port = 65536;
    if (port > 65535) break;
  }
  if (port == 0 || port > 65535) return "'" + escaped(url, 80) + "': the port must be 1 to 65535";
  return {};
}

std::string check_key(const std::string& text) {
  std::array<std::byte, 32> key{};
  const Outcome<void> read = from_hex(text, key);
  return read ? std::string() : "is not a server key: " + read.error().detail;
}

auto named(const char* what) {
  return [what](const std::string& text) {
    const Outcome<void> name = check_name(what, text);
    return name ? std::string() : name.error().detail;
  };
}

std::string check_input(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size()) return "'" + escaped(text, 80) + "' is not NAME=FILE";
  return named("tensor")(text.substr(0, equals));
}

}  // namespace

Parsed parse(int argc, const char* const* argv, std::string_view home) {
  Options options;
  options.keys = (home.empty() ? std::string(".") : std::string(home)) + "/.config/gearbox";
  std::vector<std::string> central_urls;
  std::vector<std::string> key_texts;
  std::vector<std::string> input_texts;
  int lossy = 0;
  int priority = 0;
  std::int64_t deadline_ms = 0;
  std::int64_t timeout_ms = options.send.timeout.count();
  std::int64_t first_contact_ms = options.send.first_contact.count();
  std::int64_t move_after_ms = options.send.move_after.count();

  CLI::App app("Sends pictures to a Gearbox broker and prints what its models say.", "pi_client");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string(kAgent));
  app.require_subcommand(1);

  const auto add_keys = [&](CLI::App* to) {
    to->add_option("--keys", options.keys, "folder with this device's key")->capture_default_str()->type_name("DIR");
  };
  const auto add_central = [&](CLI::App* to) {
    to->add_option("--central", central_urls, "where central listens; repeated: standbys, asked in turn")
        ->required()
        ->type_name("tcp://HOST:PORT")
        ->check(check_url, "")
        ->allow_extra_args(false);
    to->add_option("--server-key", key_texts,
                   "central's public key, 64 hexadecimal digits; of several centrals one for all, or one for each")
        ->required()
        ->type_name("KEY")
        ->check(check_key, "")
        ->allow_extra_args(false);
    to->add_option("--user", options.central.user, "your account")
        ->required()
        ->type_name("NAME")
        ->check(named("user"), "");
    add_keys(to);
  };

  CLI::App* enrol = app.add_subcommand("enrol", "Registers this device under your account, once.");
  add_central(enrol);
  enrol->add_option("--device", options.enrol.device, "a name for this device (default: the host's name)")
      ->type_name("NAME")
      ->check(named("device"), "");
  enrol
      ->add_option("--password-file", options.enrol.password_file,
                   "read the password's one line from FILE, - for standard input")
      ->type_name("FILE");
  enrol->footer(kEnrolFooter);

  CLI::App* send = app.add_subcommand("send", "Sends files through a task and prints the results.");
  add_central(send);
  SendOptions& s = options.send;
  CLI::Option* task =
      send->add_option("--task", s.task, "what to do with them")->type_name("NAME")->check(named("task"), "");
  send->add_option("--steps", s.steps_file,
                   "instead of a task, steps of your own: [[step]] and [result] as in a task's file")
      ->type_name("FILE.toml")
      ->excludes(task);
  CLI::Option* files = send->add_option("FILE", s.files, "JPEG, PNG, .npy or PNM; each is one request")->type_name("");
  send->add_option("--input", input_texts, "one input of a task with several; together they are one request")
      ->type_name("NAME=FILE")
      ->check(check_input, "")
      ->excludes(files)
      ->allow_extra_args(false);
  send->add_option("--tensor", s.tensor, "the task's input that FILEs go to")
      ->type_name("NAME")
      ->capture_default_str()
      ->check(named("tensor"), "");
  send->add_flag("--json", s.json, "one JSON object per request and line, as they finish");
  send->add_flag("--quiet", s.quiet, "results only: no table, no progress bar");
  send->add_flag("--stream", s.stream, "print parts of an answer as they come, from models that stream");
  send->add_option("--out", s.out, "write results other than text there as .npy (a folder, or one file)")
      ->type_name("PATH");
  send->add_option("--parallel", s.parallel, "requests under way at once")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  CLI::Option* lossy_option =
      send->add_option("--lossy", lossy,
                       "let raw 8-bit frames travel as JPEG of this quality, where the task allows it")
          ->type_name("QUALITY")
          ->check(CLI::Range(1, 100));
  send->add_option("--priority", priority, "higher goes first, up to what the account may")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(0, 255));
  CLI::Option* deadline_option =
      send->add_option("--deadline-ms", deadline_ms, "time for each request; the broker drops what is later")
          ->type_name("N")
          ->check(CLI::Range(std::int64_t{1}, std::int64_t{86'400'000}));
  send->add_option("--timeout-ms", timeout_ms, "give up a request after this long, reconnects included")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{86'400'000}));
  send->add_option("--first-contact-ms", first_contact_ms, "how long central may be unreachable at the start")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{86'400'000}));
  send->add_option("--move-after-ms", move_after_ms,
                   "what a node has acknowledged stays with it for so long without a word of it; 0: for ever")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{86'400'000}));
  send->footer(kSendFooter);

  CLI::App* key = app.add_subcommand("key", "About this device's key.");
  key->require_subcommand(1);
  key->footer(kKeyFooter);
  CLI::App* show = key->add_subcommand("show", "Prints the public key, as `broker keys` lists it.");
  add_keys(show);
  show->footer(kKeyFooter);

  SpoolWords spool(app, add_central, &options.spool);

  Parsed parsed;
  try {
    app.parse(argc, argv);
    if (key_texts.size() > 1 && key_texts.size() != central_urls.size()) {
      throw CLI::ValidationError("--server-key: once, or as often as --central");
    }
    if (central_urls.size() > kMostCentrals) {
      throw CLI::ValidationError("--central: at most " + std::to_string(kMostCentrals));
    }
    const std::string lacks = spool.finish();
    if (!lacks.empty()) throw CLI::ValidationError(lacks);
    if (send->parsed() && s.task.empty() && s.steps_file.empty()) {
      throw CLI::RequiredError("send: --task or --steps");
    }
    if (send->parsed() && s.files.empty() && input_texts.empty()) {
      throw CLI::RequiredError("send: FILE or --input NAME=FILE");
    }
  } catch (const CLI::ParseError& error) {
    // CLI11 reports help and version as errors of exit code 0; app.exit() writes to streams, which are ours here.
    std::ostringstream out;
    std::ostringstream err;
    const int code = app.exit(error, out, err);
    parsed.exit_code = code == 0 ? 0 : 2;
    parsed.text = code == 0 ? out.str() : err.str();
    return parsed;
  }

  for (std::size_t i = 0; i < central_urls.size(); ++i) {
    CentralPlace place;
    place.url = central_urls[i];
    // check_key has seen it already.
    if (!from_hex(key_texts[key_texts.size() == 1 ? 0 : i], place.server_key)) std::abort();
    if (i == 0) {
      static_cast<CentralPlace&>(options.central) = std::move(place);
    } else {
      options.central.others.push_back(std::move(place));
    }
  }
  for (const std::string& text : input_texts) {
    const std::size_t equals = text.find('=');
    s.inputs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  if (lossy_option->count() > 0) s.lossy = lossy;
  s.priority = static_cast<std::uint8_t>(priority);
  if (deadline_option->count() > 0) s.deadline = milliseconds(deadline_ms);
  s.timeout = milliseconds(timeout_ms);
  s.first_contact = milliseconds(first_contact_ms);
  s.move_after = milliseconds(move_after_ms);
  if (s.stream && !s.json) s.parallel = 1;  // texts that come at once would be torn apart
  options.command = enrol->parsed()       ? Command::enrol
                    : show->parsed()      ? Command::show_key
                    : spool.run_parsed()  ? Command::run
                    : spool.add_parsed()  ? Command::spool_add
                    : spool.list_parsed() ? Command::spool_list
                    : spool.drop_parsed() ? Command::spool_drop
                                          : Command::send;
  parsed.options = std::move(options);
  return parsed;
}

}  // namespace gearbox::client
