#include "spool.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "gearbox/base/text.hpp"
#include "homes.hpp"

namespace gearbox::client {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMaxItemJson = 1 << 20;
constexpr std::size_t kMaxDamaged = 256;  // files kept in damaged/; more are removed instead
constexpr std::size_t kNamesTold = 8;
constexpr std::size_t kSequenceDigits = 14;

std::string stem_of(std::uint64_t sequence, const RequestId& id) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*llu-", static_cast<int>(kSequenceDigits),
                static_cast<unsigned long long>(sequence));
  return text + to_text(id);
}

/// The sequence number in front of a stem; 0: it is not one of ours.
std::uint64_t sequence_in(const std::string& stem) {
  std::uint64_t number = 0;
  if (stem.size() != kSequenceDigits + 1 + 32 || stem[kSequenceDigits] != '-') return 0;
  const auto [end, failed] = std::from_chars(stem.data(), stem.data() + kSequenceDigits, number);
  return failed == std::errc{} && end == stem.data() + kSequenceDigits ? number : 0;
}

Outcome<Spooled> read_item(const fs::path& folder, const std::string& stem) {
  BOOST_OUTCOME_TRY(const Bytes text, read_whole(folder / (stem + ".json"), kMaxItemJson));
  Spooled found;
  BOOST_OUTCOME_TRY(found.item, spool_item_from(text_of(text)));
  // Whether its bytes are whole is seen when it is sent: then its end has somebody to be told to.
  found.sequence = sequence_in(stem);
  if (stem_of(found.sequence, found.item.id) != stem) return Error{Errc::corrupt_data, "another request's name"};
  found.bytes = text.size() + found.item.submit.wire_bytes;
  return found;
}

Error dropped_in_vain(const Error& error, const std::vector<Spooled>& dropped) {
  std::string detail = error.detail + "; dropped to make room, in vain:";
  for (std::size_t i = 0; i < dropped.size() && i < kNamesTold; ++i) detail += " " + escaped(dropped[i].item.name, 64);
  if (dropped.size() > kNamesTold) detail += " and " + std::to_string(dropped.size() - kNamesTold) + " more";
  return Error{error.code, detail};
}

}  // namespace

Outcome<std::unique_ptr<Spool>> Spool::open(fs::path folder, SpoolLimits limits) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return file_error(folder, failed.value());
  ::chmod(folder.c_str(), 0700);  // of another owner: then what follows tells whether it can be used
  std::unique_ptr<Spool> spool(new Spool(std::move(folder), limits));
  const std::lock_guard guard(spool->mutex_);
  BOOST_OUTCOME_TRY(const Descriptor locked, spool->lock());
  return spool;
}

bool Spool::is_there(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / "lock", none);
}

Outcome<Descriptor> Spool::lock() {
  BOOST_OUTCOME_TRY(Descriptor locked, lock_file(folder_ / "lock", limits_.lock_within));
  std::uint64_t changes = 0;
  if (::pread(locked.get(), &changes, sizeof changes, 0) != sizeof changes) changes = 0;
  if (!known_ || changes != changes_) {
    known_ = false;  // until the look has worked
    changes_ = changes;
    const std::size_t aside = set_aside_;
    BOOST_OUTCOME_TRY(look());
    if (set_aside_ != aside) {
      BOOST_OUTCOME_TRY(count_change(locked.get()));
    }
    known_ = true;
  }
  return locked;
}

Outcome<void> Spool::count_change(int lock) {
  // Counted first: whoever dies in the middle of a change has made the others look again.
  const std::uint64_t changes = changes_ + 1;
  if (::pwrite(lock, &changes, sizeof changes, 0) != sizeof changes) return file_error(folder_ / "lock", errno);
  changes_ = changes;
  return done();
}

/// Reads what is new and forgets what is gone. Items that were read before are not read again: they never change.
Outcome<void> Spool::look() {
  std::set<std::string> heads;
  std::set<std::string> bodies;
  std::vector<fs::path> stray;
  std::error_code failed;
  fs::directory_iterator entry(folder_, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    const fs::path& path = entry->path();
    const std::string stem = path.stem().string();
    if (path.extension() == ".new" && sequence_in(fs::path(stem).stem().string()) > 0) {
      stray.push_back(path);  // never finished: only who holds the lock writes
    } else if (sequence_in(stem) > 0 && path.extension() == ".json") {
      heads.insert(stem);
    } else if (sequence_in(stem) > 0 && path.extension() == ".bin") {
      bodies.insert(stem);
    }
  }
  if (failed) return file_error(folder_, failed.value());
  std::erase_if(items_, [&](const auto& known) { return heads.count(known.first) == 0; });
  for (const std::string& stem : heads) {
    bodies.erase(stem);
    next_ = std::max(next_, sequence_in(stem) + 1);
    if (items_.count(stem) > 0) continue;
    Outcome<Spooled> found = read_item(folder_, stem);
    if (found) {
      items_[stem] = std::make_shared<Spooled>(std::move(found).value());
    } else if (found.error().code == Errc::corrupt_data || found.error().code == Errc::too_large) {
      put_aside(stem);
    } else {
      return std::move(found).error();
    }
  }
  for (const std::string& stem : bodies) stray.push_back(folder_ / (stem + ".bin"));
  for (const fs::path& path : stray) ::unlink(path.c_str());
  return done();
}

void Spool::put_aside(const std::string& stem) {
  ++set_aside_;
  items_.erase(stem);
  const fs::path aside = folder_ / "damaged";
  std::error_code failed;
  fs::create_directory(aside, failed);
  const auto there =
      failed ? kMaxDamaged
             : static_cast<std::size_t>(std::distance(fs::directory_iterator(aside, failed), fs::directory_iterator()));
  for (const char* end : {".json", ".bin"}) {
    const fs::path path = folder_ / (stem + end);
    if (there >= kMaxDamaged || ::rename(path.c_str(), (aside / path.filename()).c_str()) != 0) ::unlink(path.c_str());
  }
}

/// Those that must go so that `bytes` more fit.
Outcome<std::vector<std::shared_ptr<const Spooled>>> Spool::make_room(std::uint64_t bytes,
                                                                      const std::set<RequestId>& kept) const {
  if (bytes > limits_.max_bytes)
    return Error{Errc::too_large,
                 std::to_string(bytes) + " bytes; the spool is bound to " + std::to_string(limits_.max_bytes)};
  std::uint64_t sum = bytes;
  std::size_t count = 1;
  for (const auto& [stem, item] : items_) {
    sum += item->bytes;
    ++count;
  }
  std::vector<std::shared_ptr<const Spooled>> victims;
  const auto fits = [&] { return sum <= limits_.max_bytes && count <= limits_.max_items; };
  for (auto at = items_.begin(); at != items_.end(); ++at) {
    if (limits_.policy == SpoolPolicy::keep_all) break;
    if (limits_.policy == SpoolPolicy::drop_oldest && fits()) break;
    if (kept.count(at->second->item.id) > 0) continue;
    victims.push_back(at->second);
    sum -= at->second->bytes;
    --count;
  }
  if (fits()) return victims;
  return Error{Errc::no_space, "the spool is full: " + std::to_string(count - 1) + " of " +
                                   std::to_string(limits_.max_items) + " items, " + std::to_string(sum) + " of " +
                                   std::to_string(limits_.max_bytes) + " bytes with the newcomer"};
}

/// The oldest of which the files are as large as `bytes`, for a full disk; none when all together are not.
std::vector<std::shared_ptr<const Spooled>> Spool::make_way(std::uint64_t bytes,
                                                            const std::set<RequestId>& kept) const {
  std::vector<std::shared_ptr<const Spooled>> victims;
  if (limits_.policy == SpoolPolicy::keep_all) return victims;
  std::uint64_t sum = 0;
  for (const auto& [stem, item] : items_) {
    if (kept.count(item->item.id) > 0 || is_pinned(item->item.id)) continue;
    victims.push_back(item);
    sum += item->bytes;
    if (sum >= bytes) return victims;
  }
  return {};
}

/// What is being sent, and what a node has acknowledged: it may be running there. The process that sends has both as
/// pins; others find the second in its notes.
Outcome<std::set<RequestId>> Spool::not_to_be_dropped() const {
  std::set<RequestId> kept;
  if (limits_.policy == SpoolPolicy::keep_all || items_.empty()) return kept;
  std::set<RequestId> there;
  for (const auto& [stem, item] : items_) there.insert(item->item.id);
  BOOST_OUTCOME_TRY(const NodesByRequest acknowledged, Homes(homes_file()).load(there));
  for (const auto& [id, nodes] : acknowledged) kept.insert(id);
  const std::lock_guard guard(pins_mutex_);
  kept.insert(pinned_.begin(), pinned_.end());
  return kept;
}

Outcome<Spool::Added> Spool::add(SpoolItem item, ByteView bytes, const std::function<void()>& before_seen) {
  const std::lock_guard guard(mutex_);
  BOOST_OUTCOME_TRY(const Descriptor locked, lock());
  const std::string json = to_json(item);
  BOOST_OUTCOME_TRY(const std::set<RequestId> kept, not_to_be_dropped());
  BOOST_OUTCOME_TRY(const auto victims, make_room(json.size() + bytes.size(), kept));
  BOOST_OUTCOME_TRY(count_change(locked.get()));
  Spooled spooled;
  spooled.sequence = next_++;
  spooled.bytes = json.size() + bytes.size();
  const std::string stem = stem_of(spooled.sequence, item.id);
  spooled.item = std::move(item);
  Added added;
  Outcome<void> written = write(stem, json, bytes, before_seen);
  if (!written && written.error().code == Errc::no_space) {
    // A disk that is fuller than the bounds thought: the oldest give way to it as they do to the bounds. Once: when
    // that has not helped, something else fills the disk, and more of them would go for nothing.
    const auto given = make_way(spooled.bytes, kept);
    for (const auto& victim : given) {
      unlink_item(*victim);
      added.dropped.push_back(*victim);
    }
    if (!given.empty()) written = write(stem, json, bytes, before_seen);
    if (!written && !given.empty()) return dropped_in_vain(written.error(), added.dropped);
  }
  if (!written) return std::move(written).error();
  for (const auto& victim : victims) {
    if (items_.count(stem_of(victim->sequence, victim->item.id)) == 0 || is_pinned(victim->item.id)) continue;
    unlink_item(*victim);
    added.dropped.push_back(*victim);
  }
  items_[stem] = std::make_shared<Spooled>(std::move(spooled));
  return added;
}

Outcome<void> Spool::write(const std::string& stem, const std::string& json, ByteView bytes,
                           const std::function<void()>& before_seen) {
  const fs::path body = folder_ / (stem + ".bin");
  const fs::path head = folder_ / (stem + ".json");
  Outcome<void> written = write_durably(body, bytes);
  if (written) written = write_durably(head, view_of(json));
  if (written) written = sync_folder(folder_);
  if (written) {
    if (before_seen) before_seen();
    return done();
  }
  // Not durable, so not there: whoever added it is told, and may add it again.
  ::unlink(head.c_str());
  ::unlink(body.c_str());
  return written;
}

void Spool::unlink_item(const Spooled& item) {
  const std::string stem = stem_of(item.sequence, item.item.id);
  ::unlink((folder_ / (stem + ".json")).c_str());
  ::unlink((folder_ / (stem + ".bin")).c_str());
  items_.erase(stem);
}

Outcome<std::vector<std::shared_ptr<const Spooled>>> Spool::list() {
  const std::lock_guard guard(mutex_);
  BOOST_OUTCOME_TRY(const Descriptor locked, lock());
  std::vector<std::shared_ptr<const Spooled>> all;
  for (const auto& [stem, item] : items_) all.push_back(item);
  return all;
}

Outcome<Payload> Spool::load(const RequestId& id) {
  const std::lock_guard guard(mutex_);
  BOOST_OUTCOME_TRY(const Descriptor locked, lock());
  for (const auto& [stem, known] : items_) {
    if (known->item.id != id) continue;
    const std::shared_ptr<const Spooled> item = known;
    const fs::path body = folder_ / (stem + ".bin");
    Outcome<Bytes> bytes = read_whole(body, item->item.submit.wire_bytes + 1);
    std::error_code unknown;
    const bool is_longer = !bytes && bytes.error().code == Errc::too_large;
    if (!bytes && !is_longer && fs::exists(body, unknown)) return std::move(bytes).error();  // a disk, another time
    Outcome<Payload> payload = payload_of(item->item, bytes ? std::move(bytes).value() : Bytes());
    if (!payload) {
      BOOST_OUTCOME_TRY(count_change(locked.get()));
      put_aside(std::string(stem));
    }
    return payload;
  }
  return Error{Errc::not_found, "no request " + to_text(id) + " in " + folder_.string()};
}

Outcome<bool> Spool::remove(const RequestId& id) {
  const std::lock_guard guard(mutex_);
  BOOST_OUTCOME_TRY(const Descriptor locked, lock());
  for (const auto& [stem, item] : items_) {
    if (item->item.id != id) continue;
    BOOST_OUTCOME_TRY(count_change(locked.get()));
    const std::shared_ptr<const Spooled> gone = item;
    unlink_item(*gone);
    BOOST_OUTCOME_TRY(sync_folder(folder_));
    return true;
  }
  return false;
}

void Spool::pin(const RequestId& id) {
  const std::lock_guard guard(pins_mutex_);
  pinned_.insert(id);
}

void Spool::unpin(const RequestId& id) {
  const std::lock_guard guard(pins_mutex_);
  pinned_.erase(id);
}

bool Spool::is_pinned(const RequestId& id) const {
  const std::lock_guard guard(pins_mutex_);
  return pinned_.count(id) > 0;
}

std::size_t Spool::set_aside() const {
  const std::lock_guard guard(mutex_);
  return set_aside_;
}

}  // namespace gearbox::client
