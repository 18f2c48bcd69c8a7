extension GrantedExchange {
    /// Makes a call that only reads, and repeats the call after temporary failures until the deadline.
    func reading<Value: Sendable>(
        _ read: () async throws(ProviderFailure) -> Value
    ) async throws(ProviderFailure) -> Value {
        var pause = Duration.milliseconds(500)
        while true {
            do throws(ProviderFailure) { return try await read() } catch {
                switch error {
                case .rejected, .unusable, .identityRejected: throw error
                case .notSent, .retryable, .lost: break
                }
                var wait = pause
                if case .retryable(_, let retryAfter?, _) = error { wait = max(pause, retryAfter) }
                guard claim.context.clock.monotonic() + wait + .seconds(1) < deadline else { throw error }
                do { try await claim.context.clock.sleep(wait) } catch { throw .lost(detail: "the process ends") }
                pause = min(pause * 2, .seconds(4))
            }
        }
    }
}
