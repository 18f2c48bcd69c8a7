import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The HTTP layer, which is one `URLSession` without cookies of its own.
///
/// Redirects are not followed, and bodies are delivered piece by piece as they arrive.
final class Wire: NSObject, URLSessionDataDelegate, @unchecked Sendable {
    /// A part of a response.
    ///
    /// The parts arrive in this order.
    enum Part: Sendable {
        case head(status: Int, fields: [String: String])
        case body(Data)
        case end(failed: Bool)
    }

    /// A function that decides about a server's certificate, or answers another challenge of the connection.
    typealias Authenticate =
        @Sendable (URLAuthenticationChallenge) async -> (URLSession.AuthChallengeDisposition, URLCredential?)

    private let lock = NSLock()
    private let authenticate: Authenticate?
    private var receivers: [Int: @Sendable (Part) -> Void] = [:]
    private var session: URLSession?

    init(_ configuration: URLSessionConfiguration = .ephemeral, authenticate: Authenticate? = nil) {
        self.authenticate = authenticate
        super.init()
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        configuration.httpMaximumConnectionsPerHost = 16
        session = URLSession(configuration: configuration, delegate: self, delegateQueue: nil)
    }

    /// Ends the `URLSession`, which retains this object.
    func close() { session?.invalidateAndCancel() }

    /// Sends a request, and passes each part to the receiver.
    func start(_ request: URLRequest, _ receive: @escaping @Sendable (Part) -> Void) -> Cancelling {
        guard let task = session?.dataTask(with: request) else {
            receive(.end(failed: true))
            return Cancelling(nil)
        }
        lock.withLock { receivers[task.taskIdentifier] = receive }
        task.resume()
        return Cancelling(task)
    }

    /// Sends a request and returns the whole response.
    ///
    /// Throws ``CoatcheckError/unreachable`` if the response is missing or breaks off.
    func send(_ request: URLRequest) async throws -> Answer {
        var answer: Answer?
        for await part in parts(of: request) {
            switch part {
            case .head(let status, let fields): answer = Answer(status: status, fields: fields, body: Data())
            case .body(let data): answer?.body.append(data)
            case .end(let failed):
                if !failed, let answer { return answer }
            }
        }
        try Task.checkCancellation()
        throw CoatcheckError.unreachable
    }

    /// Sends a request and returns its parts as they arrive.
    ///
    /// The request is cancelled if the caller stops reading.
    func parts(of request: URLRequest) -> AsyncStream<Part> {
        AsyncStream { continuation in
            let task = start(request) { part in
                continuation.yield(part)
                if case .end = part { continuation.finish() }
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    private func receiver(_ task: URLSessionTask, last: Bool = false) -> (@Sendable (Part) -> Void)? {
        lock.withLock { last ? receivers.removeValue(forKey: task.taskIdentifier) : receivers[task.taskIdentifier] }
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        if let response = response as? HTTPURLResponse {
            var fields: [String: String] = [:]
            for (name, value) in response.allHeaderFields { fields["\(name)".lowercased()] = "\(value)" }
            receiver(dataTask)?(.head(status: response.statusCode, fields: fields))
        }
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        receiver(dataTask)?(.body(data))
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        receiver(task, last: true)?(.end(failed: error != nil))
    }

    func urlSession(
        _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
        completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
        guard let authenticate else { return completionHandler(.performDefaultHandling, nil) }
        let asked = Asked(challenge: challenge)
        Task {
            let (disposition, credential) = await authenticate(asked.challenge)
            completionHandler(disposition, credential)
        }
    }

    /// A challenge that is passed to the app's function `authenticate`.
    private struct Asked: @unchecked Sendable { let challenge: URLAuthenticationChallenge }

    // Redirects are not followed, because the session's credentials must not reach another server. The app decides about
    // an upstream's redirect.
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }

    /// A handle to cancel a request.
    struct Cancelling: @unchecked Sendable {
        private let task: URLSessionDataTask?
        init(_ task: URLSessionDataTask?) { self.task = task }
        func cancel() { task?.cancel() }
    }
}
