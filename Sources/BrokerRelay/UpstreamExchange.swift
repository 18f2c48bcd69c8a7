import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import Synchronization

/// One call to an upstream as the HTTP client tells it: the answer's head, pieces of its body, its end.
///
/// The client's delegate interface, because everything then happens on the event loop of the call; its asynchronous one
/// starts a task elsewhere for each request, only to be able to cancel it (decision 10).
final class UpstreamExchange: HTTPClientResponseDelegate, Sendable {
    typealias Response = Void

    /// How many bytes of a body may wait for their reader.
    private static let ahead = 65_536

    private struct State {
        var head: Result<HTTPResponseHead, any Error>?
        var headReader: CheckedContinuation<HTTPResponseHead, any Error>?
        var pieces = CircularBuffer<ByteBuffer>(initialCapacity: 2)
        var bytes = 0
        /// Kept while enough waits: the client reads no further before it succeeds.
        var demand: EventLoopPromise<Void>?
        var end: Result<Void, any Error>?
        var reader: CheckedContinuation<ByteBuffer?, any Error>?
        var task: HTTPClient.Task<Void>?
        var cancelled: (any Error)?

        /// Takes what is there, and the promise to fulfil when enough of it is gone; nil when nothing is there.
        mutating func take() -> (ready: Result<ByteBuffer?, any Error>?, demand: EventLoopPromise<Void>?) {
            guard let piece = pieces.popFirst() else { return (end.map { $0.map { nil } }, nil) }
            bytes -= piece.readableBytes
            guard bytes < UpstreamExchange.ahead else { return (.success(piece), nil) }
            defer { demand = nil }
            return (.success(piece), demand)
        }
    }

    private let state = Mutex(State())
    /// Where the request's body comes from, if it is streamed.
    private let gate: BodyGate?

    init(_ gate: BodyGate?) { self.gate = gate }

    // MARK: What the call is asked

    /// Starts the call and returns the answer's head.
    ///
    /// `deadline` is for the head; nil leaves that to somebody else.
    func begin(
        _ request: HTTPClient.Request, with client: HTTPClient, before deadline: NIODeadline?
    ) async throws -> HTTPResponseHead {
        let task = client.execute(request: request, delegate: self, deadline: nil)
        // A client that is shut down refuses without telling the delegate.
        task.futureResult.whenFailure { self.finish(.failure($0)) }
        let cancelled = state.withLock { state in
            // It may have ended already.
            if state.end == nil { state.task = task }
            return state.cancelled
        }
        if let cancelled { task.fail(reason: cancelled) }
        let timer = deadline.map { deadline in
            task.eventLoop.scheduleTask(deadline: deadline) { task.fail(reason: HTTPClientError.deadlineExceeded) }
        }
        defer { timer?.cancel() }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let head = state.withLock { state in
                    if state.head == nil { state.headReader = continuation }
                    return state.head
                }
                if let head { continuation.resume(with: head) }
            }
        } onCancel: {
            cancel(CancellationError())
        }
    }

    /// Returns the body's next piece, nil at its end; throws when the upstream breaks off.
    func next() async throws -> ByteBuffer? {
        let (ready, demand) = state.withLock { $0.take() }
        demand?.succeed()
        if let ready { return try ready.get() }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                // Something may have come since the look above.
                let (ready, demand) = state.withLock { state in
                    let taken = state.take()
                    if taken.ready == nil { state.reader = continuation }
                    return taken
                }
                demand?.succeed()
                if let ready { continuation.resume(with: ready) }
            }
        } onCancel: {
            cancel(CancellationError())
        }
    }

    /// Ends a call that nobody needs any more, and with it its connection, unless it has ended.
    func cancel(_ reason: any Error) {
        let (isFirst, task) = state.withLock { state -> (Bool, HTTPClient.Task<Void>?) in
            guard state.end == nil, state.cancelled == nil else { return (false, nil) }
            state.cancelled = reason
            return (true, state.task)
        }
        if isFirst { stop(task, reason) }
    }

    /// Stops a request by its body while that is being sent: the client closes the connection then.
    private func stop(_ task: HTTPClient.Task<Void>?, _ reason: any Error) {
        if gate?.stop(reason) != true { task?.fail(reason: reason) }
    }

    // MARK: What the client tells

    func didReceiveHead(task: HTTPClient.Task<Void>, _ head: HTTPResponseHead) -> EventLoopFuture<Void> {
        let reader = state.withLock { state in
            state.head = .success(head)
            defer { state.headReader = nil }
            return state.headReader
        }
        reader?.resume(returning: head)
        return task.eventLoop.makeSucceededVoidFuture()
    }

    func didReceiveBodyPart(task: HTTPClient.Task<Void>, _ buffer: ByteBuffer) -> EventLoopFuture<Void> {
        guard buffer.readableBytes > 0 else {
            endedEarly(task)
            return task.eventLoop.makeSucceededVoidFuture()
        }
        let (reader, more) = state.withLock {
            state -> (CheckedContinuation<ByteBuffer?, any Error>?, EventLoopFuture<Void>?) in
            if let reader = state.reader {
                state.reader = nil
                return (reader, nil)
            }
            state.pieces.append(buffer)
            state.bytes += buffer.readableBytes
            guard state.bytes >= Self.ahead else { return (nil, nil) }
            let demand = task.eventLoop.makePromise(of: Void.self)
            state.demand = demand
            return (nil, demand.futureResult)
        }
        reader?.resume(returning: buffer)
        return more ?? task.eventLoop.makeSucceededVoidFuture()
    }

    func didFinishRequest(task: HTTPClient.Task<Void>) throws { finish(.success(())) }

    func didReceiveError(task: HTTPClient.Task<Void>, _ error: any Error) { finish(.failure(error)) }

    /// The answer is whole and the request is not (`EarlyAnswer`): nothing more of it is sent.
    private func endedEarly(_ task: HTTPClient.Task<Void>) {
        finish(.success(()))
        stop(task, HTTPClientError.requestStreamCancelled)
    }

    private func finish(_ end: Result<Void, any Error>) {
        let (headReader, reader, demand, failure) = state.withLock { state in
            if state.end == nil { state.end = end }
            state.task = nil
            var failure: (any Error)?
            if case .failure(let error) = end { failure = error }
            if state.head == nil, let failure { state.head = .failure(failure) }
            defer {
                state.headReader = nil
                state.reader = nil
                state.demand = nil
            }
            return (state.headReader, state.reader, state.demand, failure)
        }
        // Whoever still waits to send more waits in vain.
        gate?.stop(failure ?? HTTPClientError.requestStreamCancelled)
        demand?.succeed()
        if let failure {
            headReader?.resume(throwing: failure)
            reader?.resume(throwing: failure)
        } else {
            reader?.resume(returning: nil)
        }
    }
}
