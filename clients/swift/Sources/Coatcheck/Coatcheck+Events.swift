import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension Coatcheck {
    /// Returns the events of the session until it ends or the caller stops listening.
    ///
    /// Reconnects automatically.
    ///
    /// Listen while the app is in the foreground, and stop when it goes to the background. The first event after each start
    /// contains the current state.
    public nonisolated func events() -> AsyncThrowingStream<SessionEvent, any Error> {
        AsyncThrowingStream { continuation in
            let task = Task { [weak self] in
                do {
                    try await self?.listen { continuation.yield($0) }
                    continuation.finish()
                } catch { continuation.finish(throwing: error) }
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    private func listen(_ tell: @Sendable (SessionEvent) -> Void) async throws {
        var number = 0
        var mending = Mending()
        // A proof opens the stream, because a stream that a pass has opened ends with the pass.
        let call = Call(method: "GET", path: "/v1/session/events", evidence: .proof)
        while true {
            try Task.checkCancellation()
            var retryAfter: Duration?
            let sent = try kept().session
            do {
                var request = try await prepared(call, mending)
                // The broker sends something at least every 25 seconds, so 60 seconds of silence mean that the connection is
                // dead.
                request.timeoutInterval = 60
                switch try await stream(
                    request, of: sent, call, &mending,
                    tell: {
                        number = 0; tell($0)
                    })
                {
                case .ended: return
                case .mended: continue
                case .broken(let pause): retryAfter = pause
                }
            } catch CoatcheckError.keyLost { return tell(.ended(reason: Self.keyLost)) }
            let growing = Duration.milliseconds(Int.random(in: 500...1000) << min(number, 5))
            try await Task.sleep(for: max(retryAfter ?? .zero, growing))
            number += 1
        }
    }

    private enum End { case ended, mended, broken(retryAfter: Duration?) }

    private func stream(
        _ request: URLRequest, of sent: String?, _ call: Call, _ mending: inout Mending, tell: (SessionEvent) -> Void
    ) async throws -> End {
        var answer: Answer?
        var lines = EventLines()
        for await part in wire.parts(of: request) {
            switch part {
            case .head(let status, let fields):
                answer = Answer(status: status, fields: fields, body: Data())
                keepNonce(fields)
                if status == 200 { mending = Mending() }
            case .body(let data):
                guard answer?.status == 200 else {
                    answer?.body.append(data)
                    continue
                }
                for event in lines.take(data) {
                    if case .session(let session) = event {
                        tell(.session(try remember(session, of: sent)))
                        continue
                    }
                    tell(event)
                    guard case .ended = event else { continue }
                    try forget(asSentIn: request)
                    return .ended
                }
            case .end: break
            }
        }
        guard let answer, answer.status != 200 else { return .broken(retryAfter: nil) }
        guard let problem = answer.problem else { return .broken(retryAfter: nil) }
        try learn(from: problem, answer, sent: request)
        if problem.endsSession {
            tell(.ended(reason: problem.reason))
            return .ended
        }
        if try mends(problem, of: call, &mending, sent: request) { return .mended }
        guard problem.passes else { throw problem }
        return .broken(retryAfter: answer.retryAfter)
    }
}
