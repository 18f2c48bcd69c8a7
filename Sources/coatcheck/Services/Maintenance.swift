import Broker

/// Makes the background work of the broker: sweeping expired rows, and telling providers which tokens ended.
enum Maintenance {
    /// Sweeps in small batches: at once again while there is more, every 30 s when there is nothing.
    static func sweeper(_ context: BrokerContext, owner: String) -> RepeatedWork {
        let sweeper = Sweeper(context, owner: owner)
        // Its lease says that a broker works on the store: soon, for those who would copy it.
        return RepeatedWork(clock: context.clock, delay: .milliseconds(250)) {
            do throws(StoreFailure) {
                guard let count = try await sweeper.sweep() else { return .seconds(60) }
                return count >= 500 ? .milliseconds(100) : .seconds(30)
            } catch {
                context.events.emit(.storeFailed(operation: "sweep", detail: "\(error)"))
                return .seconds(30)
            }
        } end: {
            // Where the store is away it lapses by itself.
            try? await sweeper.stop()
        }
    }

    /// Tells listeners of the refreshes of other replicas.
    static func refreshes(_ context: BrokerContext, _ store: any SharedStore) -> RepeatedWork {
        let refreshes = ReplicaRefreshes(context, store)
        return RepeatedWork(clock: context.clock, delay: .seconds(1)) {
            do throws(StoreFailure) { try await refreshes.look() } catch {
                context.events.emit(.storeFailed(operation: "tokenVersions", detail: "\(error)"))
            }
            return .seconds(1)
        }
    }

    /// Finds the ends of sessions that nobody tells: relayed answers and event streams end with them.
    static func endings(_ context: BrokerContext) -> RepeatedWork {
        let watch = EndWatch(context)
        return RepeatedWork(clock: context.clock, delay: EndWatch.pause) {
            await watch.look()
            return EndWatch.pause
        }
    }

    /// Lets go of cached rows that have died, also when nobody asks for anything, and of their memory.
    static func trimming(_ context: BrokerContext) -> RepeatedWork {
        let memory = FreedMemory()
        return RepeatedWork(clock: context.clock, delay: .seconds(5)) {
            let moment = context.clock.monotonic()
            context.cache.trim(at: moment)
            memory.look(at: context.cache, moment)
            return .seconds(5)
        }
    }

    /// Works the outbox every second, every 50 ms while rows are due, and every 20 ms after a full batch.
    ///
    /// `revocations` is asked for each time, because the providers may be others.
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
