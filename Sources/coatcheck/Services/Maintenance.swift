import Broker

/// Creates the services for the broker's background work, for example sweeping expired rows and revoking tokens at providers.
enum Maintenance {
    /// Sweeps in small batches.
    ///
    /// After a full batch (500 rows), the next one follows after 100 ms, and otherwise after 30 s. If another process sweeps, or
    /// this process's clock disagrees with the store's, the next attempt follows after a minute.
    static func sweeper(_ context: BrokerContext, owner: String) -> RepeatedWork {
        let sweeper = Sweeper(context, owner: owner)
        // The sweeper's lease shows other programs that a broker uses the store. Take the lease soon, so that `store copy` is
        // refused.
        return RepeatedWork(clock: context.clock, delay: .milliseconds(250)) {
            do throws(StoreFailure) {
                guard let count = try await sweeper.sweep() else { return .seconds(60) }
                return count >= 500 ? .milliseconds(100) : .seconds(30)
            } catch {
                context.events.emit(.storeFailed(operation: "sweep", detail: "\(error)"))
                return .seconds(30)
            }
        } end: {
            // If the store is unreachable, the lease cannot be released and lapses later.
            try? await sweeper.stop()
        }
    }

    /// Polls the store for changes by other replicas: refreshes, presence keys and ends.
    ///
    /// Notifies the event streams and relayed answers in this process.
    static func refreshes(_ context: BrokerContext, _ store: any SharedStore) -> RepeatedWork {
        let refreshes = ReplicaRefreshes(context, store)
        return RepeatedWork(clock: context.clock, delay: .seconds(1)) {
            do throws(StoreFailure) { try await refreshes.look() } catch {
                context.events.emit(.storeFailed(operation: "tokenVersions", detail: "\(error)"))
            }
            return .seconds(1)
        }
    }

    /// Finds sessions that ended without a notice, and ends their relayed answers and event streams.
    static func endings(_ context: BrokerContext) -> RepeatedWork {
        let watch = EndWatch(context)
        return RepeatedWork(clock: context.clock, delay: EndWatch.pause) {
            await watch.look()
            return EndWatch.pause
        }
    }

    /// Releases expired cached rows and their memory, even without requests.
    static func trimming(_ context: BrokerContext) -> RepeatedWork {
        let memory = FreedMemory()
        return RepeatedWork(clock: context.clock, delay: .seconds(5)) {
            let moment = context.clock.monotonic()
            context.cache.trim(at: moment)
            memory.look(at: context.cache, moment)
            return .seconds(5)
        }
    }

    /// Works on the outbox every second, every 50 ms while rows are due, and every 20 ms after a full batch.
    ///
    /// After a failure of the store, the pause is five seconds. `revocations` is called each time, because the providers may
    /// have changed.
    static func revocations(
        _ context: BrokerContext, _ revocations: @escaping @Sendable () -> Revocations
    ) -> RepeatedWork {
        RepeatedWork(clock: context.clock, delay: .seconds(1)) {
            do throws(StoreFailure) {
                switch try await revocations().begin() {
                case 0: return .seconds(1)
                case ..<Revocations.batch: return .milliseconds(50)
                default: return .milliseconds(20)
                }
            } catch {
                context.events.emit(.storeFailed(operation: "outbox", detail: "\(error)"))
                return .seconds(5)
            }
        }
    }
}
