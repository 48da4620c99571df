// How a worker that was started becomes one that calls can be handed to, and what it says on its socket later.
#include "gearbox/shm/call_block.hpp"
#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

using boost::system::error_code;
using Wait = asio::posix::stream_descriptor;

void Pool::refuse(const shm::Fd& socket, std::string reason) const {
  // Best effort: a peer that cannot be told finds its socket closed.
  [[maybe_unused]] const auto sent =
      shm::send_message(socket.get(), shm::AttachBody(shm::ExitNotice{std::move(reason)}), {});
}

void Pool::arrived(shm::Fd socket, int pid, shm::AttachBody first) {
  const auto* hello = std::get_if<shm::WorkerHello>(&first);
  const auto* failed = std::get_if<shm::WorkerFailed>(&first);
  // No origin: nobody started it for a node; it may say which slot it means.
  const auto is_strange = [&](const std::string& origin) { return !origin.empty() && origin != origin_; };
  if (hello != nullptr && is_strange(hello->origin)) return came_back(std::move(socket), pid, *hello);
  if (failed != nullptr && is_strange(failed->origin)) return;  // its end tells the slot that waits for it
  Worker* worker = by_slot(hello != nullptr ? hello->slot : failed != nullptr ? failed->slot : 0);
  if (failed != nullptr) {
    // The process ends by itself, or at the load limit; its end may even have been noticed before its words.
    if (worker == nullptr || worker->was_ready || (!worker->launching && worker->last_pid != pid)) return;
    worker->said = worker->reason = shm::one_line(failed->text);
    return changed();
  }
  const bool expected = worker != nullptr && !stopping_ && !worker->attached() &&
                        (worker->launching || (worker->alive && worker->life == Life::loading && worker->pid == pid));
  if (!expected) return refuse(socket, "no worker with this process id is awaited here");
  if (hello == nullptr) return refuse(socket, "the first message is no hello");
  if (worker->launching) {
    worker->early.emplace(std::move(socket), *hello);
    worker->early_pid = pid;
    return;
  }
  attach(*worker, std::move(socket), *hello);
}

void Pool::attach(Worker& worker, shm::Fd socket, const shm::WorkerHello& hello) {
  const model::Record& record = *worker.record;
  if (hello.layout_version != shm::kLayoutVersion) {
    worker.said = worker.reason = "its shared-memory layout is version " + std::to_string(hello.layout_version);
    return refuse(socket, worker.reason);
  }
  if (hello.model != record.name || hello.version != record.version ||
      (!hello.digest.empty() && !record.digest.empty() && hello.digest != record.digest)) {
    worker.said = worker.reason =
        "it loaded another model or another content than the node knows: the folder was changed after it was read";
    return refuse(socket, worker.reason);
  }
  auto attachment = Attachment::accept(io_, std::move(socket), *input_, *worker.output, setup_.config->node.spin_us);
  if (!attachment) {
    worker.excused = passes_by_itself(attachment.error().code);
    return kill(worker, describe(attachment.error()), Errc::worker_lost);
  }
  worker.attachment = std::move(attachment).value();
  worker.life = Life::probing;
  watch_socket(worker);
  probe(worker);
}

/// A worker speaks on its socket only to say that it cannot go on; an end of the socket means that it leaves.
void Pool::watch_socket(Worker& worker) {
  worker.attachment->socket.async_wait(
      Wait::wait_read, [self = weak_from_this(), slot = worker.slot,
                        watched = std::weak_ptr(worker.attachment)](const error_code& error) {
        const auto pool = self.lock();
        const auto attachment = watched.lock();
        if (error || !pool || !attachment) return;
        Worker* const found = pool->by_slot(slot);
        if (found == nullptr || found->attachment != attachment) return;
        Worker& there = *found;
        auto message = shm::receive_message(attachment->socket.native_handle());
        if (!message && message.error().code == Errc::short_frame) return pool->watch_socket(there);
        const auto* failed = message ? std::get_if<shm::WorkerFailed>(&message.value().body) : nullptr;
        if (there.told_to_end) return;  // it goes, as it was told
        if (failed != nullptr) there.said = shm::one_line(failed->text);
        pool->kill(there, failed != nullptr ? failed->text : "it closed its attachment", Errc::worker_lost);
      });
}

void Pool::say_goodbye(const Worker& worker, std::string reason) const {
  if (!worker.attached()) return;
  // Best effort: a signal says the same.
  [[maybe_unused]] const auto told = shm::send_message(worker.attachment->socket.native_handle(),
                                                       shm::AttachBody(shm::ExitNotice{std::move(reason)}), {});
}

}  // namespace gearbox::worker_pool
