import HTTPTypes
import Hummingbird
import NIOCore

/// The faults that affect the connection and the answer at any endpoint.
struct TransportFaults {
    /// An error that ends a request without an answer, or in the middle of the answer's body.
    struct ConnectionDropped: Error {}

    let call: Call

    /// Applies the faults that act before the provider handles the request: a delay, a closed connection, or another answer.
    ///
    /// Returns the other answer, or nil if the provider has to handle the request.
    func before() async throws -> Response? {
        let faults = call.faults
        guard !faults.all.isEmpty else { return nil }
        if let slow = faults["slow"] { try await wait(slow.delayMilliseconds ?? 1_000) }
        if let hang = faults["hang"] {
            try await wait(hang.delayMilliseconds ?? 120_000)
            return try await drop()
        }
        if faults.has("drop-before") { return try await drop() }
        if let fault = faults["status"] {
            return decorated(
                .text(fault.body ?? "", status: fault.status ?? 500, type: contentType(of: fault)), with: fault)
        }
        if faults.has("rate-limited") {
            return .json(
                ["error": "rate_limited"], status: 429,
                headers: [("Retry-After", "2"), ("X-RateLimit-Reset", String(Int(call.now) + 30))])
        }
        if let fault = faults["redirect"] {
            return decorated(
                .empty(
                    fault.status ?? 307,
                    headers: [("Location", fault.location ?? call.baseURL + "/api/redirect-target")]),
                with: fault)
        }
        if let fault = faults["dead-grant"] {
            let usual: JSON = ["errors": [["errorType": "invalid_grant", "message": "told so"]], "success": false]
            return .json(fault.value ?? usual, status: fault.status ?? 400)
        }
        if let fault = faults["userinfo-not-yet"] { return .empty(fault.status ?? 401) }
        if faults.has("html-200") {
            return .text("<html><title>Please wait</title></html>", type: "text/html; charset=utf-8")
        }
        if faults.has("empty-200") { return .bytes([], type: "application/json") }
        if let fault = faults["huge"] { return huge(bytes: fault.value?.number ?? 5 << 20) }
        if let fault = faults["gzip-bomb"] {
            return .bytes(
                fault.value?.number.map { GzipBomb.make(unpacked: $0) } ?? GzipBomb.usual, type: "application/json",
                headers: [("Content-Encoding", "gzip")])
        }
        return nil
    }

    /// Applies the faults that act on the provider's answer, such as a delay or a changed body.
    func after(_ response: Response) async throws -> Response {
        let faults = call.faults
        guard !faults.all.isEmpty else { return response }
        if let fault = faults["slow-after"] { try await wait(fault.delayMilliseconds ?? 1_000) }
        if faults.has("drop-after") { _ = try await drop() }
        if let fault = faults["headers"] { return decorated(response, with: fault) }
        if faults.has("truncate") { return truncated(response) }
        if let change = Quirks.coding(faults) { return try await recoded(response, change) }
        return response
    }

    /// Returns the answer with its body changed, and with the corresponding `Content-Encoding`.
    private func recoded(_ response: Response, _ change: Quirks.Coding) async throws -> Response {
        let collector = BodyCollector()
        try await response.body.write(collector)
        let body = change.body(collector.bytes)
        var recoded = response
        recoded.body = ResponseBody(byteBuffer: ByteBuffer(bytes: body))
        if let coding = change.name { recoded.headers[.contentEncoding] = coding }
        return recoded
    }

    private func wait(_ milliseconds: Int) async throws {
        var left = milliseconds
        while left > 0, call.channel.isActive {
            try await Task.sleep(for: .milliseconds(min(left, 100)))
            left -= 100
        }
    }

    /// Closes the connection before any byte of an answer is sent.
    private func drop() async throws -> Response {
        try? await call.channel.close()
        throw ConnectionDropped()
    }

    private func contentType(of fault: Fault) -> String {
        let body = fault.body ?? ""
        if body.hasPrefix("{") || body.hasPrefix("[") { return "application/json" }
        return body.hasPrefix("<") ? "text/html; charset=utf-8" : "text/plain; charset=utf-8"
    }

    private func decorated(_ response: Response, with fault: Fault) -> Response {
        var response = response
        for (name, value) in fault.headers {
            guard let field = HTTPField.Name(name) else { continue }
            response.headers[field] = value
        }
        return response
    }

    private func huge(bytes: Int) -> Response {
        var response = Response(
            status: .ok,
            body: ResponseBody { writer in
                try await writer.write(ByteBuffer(string: #"{"access_token":""#))
                let chunk = ByteBuffer(repeating: UInt8(ascii: "a"), count: 64 << 10)
                for _ in 0..<max(1, bytes / (64 << 10)) { try await writer.write(chunk) }
                try await writer.write(ByteBuffer(string: #""}"#))
                try await writer.finish(nil)
            })
        response.headers[.contentType] = "application/json"
        return response
    }

    /// Announces the length of the whole body, sends half of the body, and closes the connection.
    private func truncated(_ response: Response) -> Response {
        let whole = response.body
        let length = whole.contentLength ?? 0
        var cut = response
        cut.body = ResponseBody(contentLength: length) { writer in
            let collector = BodyCollector()
            try await whole.write(collector)
            let bytes = collector.bytes
            try await writer.write(ByteBuffer(bytes: bytes.prefix(bytes.count / 2)))
            throw ConnectionDropped()
        }
        return cut
    }
}
