#include "spool_command.hpp"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "gearbox/base/text.hpp"
#include "spool_fill.hpp"

namespace gearbox::client {

namespace json = boost::json;

namespace {

std::string utf8(const std::string& text) {
  return is_utf8(text) ? text : escaped(text, 4096);
}

std::string line_of(json::object object) {
  return json::serialize(object) + "\n";
}

json::object error_of(const Error& error) {
  return json::object{
      {"code", static_cast<unsigned>(error.code)}, {"name", name_of(error.code)}, {"detail", utf8(error.detail)}};
}

std::unique_ptr<Spool> open(const SpoolOptions& options, Console& console) {
  Outcome<std::unique_ptr<Spool>> spool = Spool::open(options.folder, options.limits);
  if (!spool) {
    console.remarks("pi_client: " + escaped(describe(spool.error()), 1024) + "\n");
    return nullptr;
  }
  if (spool.value()->set_aside() > 0) {
    console.remarks("pi_client: " + std::to_string(spool.value()->set_aside()) +
                    " requests whose descriptions are damaged were set aside in " + escaped(options.folder, 512) +
                    "/damaged and get no answers: their ids are in the files' names\n");
  }
  return std::move(spool).value();
}

/// Who looks must not make one.
bool is_there(const SpoolOptions& options, Console& console) {
  if (Spool::is_there(options.folder)) return true;
  console.remarks("pi_client: there is no spool at " + escaped(options.folder, 512) + "\n");
  return false;
}

/// How long it has been in the spool, in ms; none where a reboot came between.
std::optional<milliseconds> age_of(const SpoolItem& item) {
  return between(item.spooled, boot_now());
}

}  // namespace

int run_spool_add(const SpoolOptions& options, Console& console) {
  const std::unique_ptr<Spool> spool = open(options, console);
  if (!spool) return 2;
  Outcome<SpoolFill> fill = SpoolFill::create(spool.get(), options.request);
  if (!fill) {
    console.remarks("pi_client: " + fill.error().detail + "\n");
    return 2;
  }
  bool all_good = true;
  for (const std::string& file : options.files) {
    Outcome<Bytes> bytes = read_whole(file, kMaxFileBytes);
    Outcome<SpoolFill::Filled> added =
        bytes ? fill.value().add(file, std::move(bytes).value()) : Outcome<SpoolFill::Filled>(bytes.error());
    all_good = all_good && added;
    if (options.json) {
      json::object line{{"file", utf8(file)}, {"ok", added.has_value()}};
      if (added) {
        line["request"] = to_text(added.value().id);
        line["dropped"] = added.value().dropped.size();
      } else {
        line["error"] = error_of(added.error());
      }
      console.results(line_of(std::move(line)));
    } else if (added) {
      console.results(to_text(added.value().id) + "  " + escaped(file, 512) + "\n");
      for (const Spooled& gone : added.value().dropped)
        console.remarks("pi_client: " + escaped(gone.item.name, 512) + " was dropped to make room\n");
    } else {
      console.remarks("pi_client: " + escaped(file, 512) + ": " + escaped(describe(added.error()), 1024) + "\n");
    }
  }
  return all_good ? 0 : 1;
}

int run_spool_list(const SpoolOptions& options, Console& console) {
  if (!is_there(options, console)) return 1;
  const std::unique_ptr<Spool> spool = open(options, console);
  if (!spool) return 2;
  const auto items = spool->list();
  if (!items) {
    console.remarks("pi_client: " + escaped(describe(items.error()), 1024) + "\n");
    return 2;
  }
  std::uint64_t sum = 0;
  for (const std::shared_ptr<const Spooled>& each : items.value()) {
    const SpoolItem& item = each->item;
    const std::string task = item.submit.steps.empty() ? item.submit.task : std::string(wire::kOwnSteps);
    const std::optional<milliseconds> age = age_of(item);
    sum += each->bytes;
    if (options.json) {
      json::object line{{"file", utf8(item.name)}, {"request", to_text(item.id)}, {"task", task},
                        {"bytes", each->bytes},    {"priority", item.priority},   {"spooled_unix_ms", item.unix_ms}};
      line["age_ms"] = age ? json::value(age->count()) : json::value(nullptr);
      console.results(line_of(std::move(line)));
    } else {
      const std::string waited = age ? std::to_string(age->count() / 1000) + " s" : "since before the reboot";
      console.results(to_text(item.id) + "  " + task + "  " + std::to_string(each->bytes) + " B  " + waited + "  " +
                      escaped(item.name, 512) + "\n");
    }
  }
  if (!options.json)
    console.remarks(std::to_string(items.value().size()) + " requests, " + std::to_string(sum) + " bytes\n");
  return 0;
}

int run_spool_drop(const SpoolOptions& options, Console& console) {
  if (!is_there(options, console)) return 1;
  const std::unique_ptr<Spool> spool = open(options, console);
  if (!spool) return 2;
  std::vector<RequestId> ids;
  if (options.all) {
    const auto items = spool->list();
    if (!items) {
      console.remarks("pi_client: " + escaped(describe(items.error()), 1024) + "\n");
      return 2;
    }
    for (const std::shared_ptr<const Spooled>& each : items.value()) ids.push_back(each->item.id);
  }
  for (const std::string& text : options.ids) {
    const Outcome<RequestId> id = request_id_from(text);  // the command line has checked it
    if (id) ids.push_back(id.value());
  }
  bool all_good = true;
  for (const RequestId& id : ids) {
    const Outcome<bool> removed = spool->remove(id);
    const bool good = removed && removed.value();
    all_good = all_good && good;
    if (options.json) {
      console.results(line_of(json::object{{"request", to_text(id)}, {"ok", good}}));
    } else if (good) {
      console.results(to_text(id) + " dropped\n");
    } else {
      console.remarks("pi_client: " + to_text(id) + ": " +
                      (removed ? "not in the spool" : escaped(describe(removed.error()), 1024)) + "\n");
    }
  }
  return all_good ? 0 : 1;
}

}  // namespace gearbox::client
