import Crypto
import HTTPTypes
import Hummingbird
import NIOCore

/// `/api`: an upstream for tests of a relay.
/// - `/api/private/…` needs a token of any provider here.
/// - `/api/audience/NAME/…` needs a token whose audience is `NAME` or ends with `/NAME`.
/// - `/api/scope/NAME/…` needs a token with that scope.
struct UpstreamAPI: SandboxProvider {
    let name = "api"
    let defaults: JSON = [:]

    func endpoint(method: String, path: String) -> String? { path.hasPrefix("/api") ? "api" : nil }
    func streams(endpoint: String) -> Bool { true }

    func handle(_ call: Call) async throws -> Response {
        ProofOfPossession(call: call, role: .resource).give(try await plain(call))
    }

    private func plain(_ call: Call) async throws -> Response {
        var rest = String(call.path.dropFirst("/api".count))
        var grant: Grant?
        if rest.hasPrefix("/private/") {
            rest = String(rest.dropFirst("/private".count))
            switch await BearerCheck(call: call).outcome() {
            case .grant(let found): grant = found
            case .refused(let refusal): return refusal
            }
        }
        let insists = rest.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false)
        if insists.count > 2, ["audience", "scope"].contains(insists[1]) {
            let parts = insists[2].split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
            let check = BearerCheck(call: call)
            if case .refused(let refusal) = await check.outcome() { return refusal }
            guard check.isFor(parts.first.map(String.init) ?? "", by: String(insists[1])) else {
                return check.challenge()
            }
            rest = "/" + (parts.count > 1 ? String(parts[1]) : "")
        }
        let segments = rest.split(separator: "/").map(String.init)
        let argument = segments.count > 1 ? segments[1] : ""
        switch segments.first {
        case "bytes": return bytes(Int(argument) ?? 0, call)
        case "status": return await status(Int(argument) ?? 200, call)
        case "slow":
            let milliseconds = Int(call.queryPairs["ms"] ?? argument) ?? 1_000
            try await Task.sleep(for: .milliseconds(milliseconds))
            return try await echo(call)
        case "401-until-refreshed": return try await untilRefreshed(call)
        case "401-always": return BearerCheck(call: call).challenge()
        case "nasty-headers": return nasty()
        case "redirect":
            return .empty(
                Int(argument) ?? 302,
                headers: [("Location", call.queryPairs["to"] ?? call.baseURL + "/api/redirect-target")])
        case "events": return events(Int(argument) ?? 3)
        case "gzip":
            return .bytes(
                GzipBomb.make(unpacked: Int(argument) ?? 10_000), type: "application/json",
                headers: [("Content-Encoding", "gzip"), ("ETag", #""sandbox""#)])
        case "trailers": return trailers()
        case "payments": return try await Payments(call: call, grant: grant, path: rest).answer()
        case "chunked": return chunked(Int(argument) ?? 1000)
        default: return try await echo(call)
        }
    }

    /// Returns the request as JSON; the body is read as a stream, and only its length, hash and first 64 KiB are kept.
    private func echo(_ call: Call) async throws -> Response {
        var hasher = SHA256()
        var length = 0
        var start: [UInt8] = []
        for try await chunk in call.request.body {
            chunk.withUnsafeReadableBytes { hasher.update(bufferPointer: $0) }
            length += chunk.readableBytes
            if start.count < 64 << 10 { start += chunk.readableBytesView.prefix((64 << 10) - start.count) }
        }
        let host = call.request.head.authority ?? ""
        let fields =
            [JSON.array(["Host", .string(host)])]
            + call.headers.map { .array([.string($0.name.rawName), .string($0.value)]) }
        return .text(
            JSON.object([
                .init(name: "method", value: .string(call.method.rawValue)),
                .init(name: "path", value: .string(call.path)), .init(name: "query", value: .string(call.query)),
                .init(name: "headers", value: .array(fields)), .init(name: "body_length", value: .int(length)),
                .init(name: "body_sha256", value: .string(Digest256.hex(hasher.finalize()))),
                .init(name: "body", value: .string(String(decoding: start, as: UTF8.self))),
            ]).serialized, type: "application/json")
    }

    private func bytes(_ count: Int, _ call: Call) -> Response {
        var response = Response(
            status: .ok,
            body: ResponseBody(contentLength: max(0, count)) { writer in
                let chunk = ByteBuffer(repeating: UInt8(ascii: "x"), count: 64 << 10)
                var left = count
                while left > 0 {
                    var part = chunk
                    guard let slice = part.readSlice(length: min(left, 64 << 10)) else { break }
                    try await writer.write(slice)
                    left -= slice.readableBytes
                }
                try await writer.finish(nil)
            })
        response.headers[.contentType] = "application/octet-stream"
        return response
    }

    private func chunked(_ count: Int) -> Response {
        Response(
            status: .ok,
            body: ResponseBody { writer in
                for _ in 0..<max(0, count) { try await writer.write(ByteBuffer(string: "0123456789")) }
                try await writer.finish(nil)
            })
    }

    private func status(_ code: Int, _ call: Call) async -> Response {
        if code == 204 || code == 304 { return .empty(code, headers: [("ETag", #""sandbox""#)]) }
        var headers: [(String, String)] = []
        if code == 429 || code == 503 { headers.append(("Retry-After", "7")) }
        return .text("status \(code)\n", status: code, headers: headers)
    }

    /// Answers 401 to every access token from a code, and 200 to one from a refresh.
    private func untilRefreshed(_ call: Call) async throws -> Response {
        let token = call.proven ?? call.bearer ?? ""
        let refreshed = call.state.with { $0.accessTokens[token]?.refreshed == true }
        guard refreshed else { return BearerCheck(call: call).challenge() }
        if case .refused(let refusal) = await BearerCheck(call: call).outcome() { return refusal }
        return try await echo(call)
    }

    /// Returns an answer with many header fields that a relay must not pass on, and with some that it may (`X-Fine`).
    private func nasty() -> Response {
        .text(
            "nasty\n",
            headers: [
                ("Set-Cookie", "upstream=1; Path=/"), ("Set-Cookie", "__Host-coatcheck=evil; Path=/; Secure"),
                ("WWW-Authenticate", "Basic realm=evil"), ("Clear-Site-Data", "\"*\""),
                ("Strict-Transport-Security", "max-age=1"), ("Alt-Svc", "h3=\":443\""),
                ("Access-Control-Allow-Origin", "*"), ("Server", "Evil/1.0"), ("X-Auth-Subject", "admin"),
                ("Coatcheck-Source", "broker"), ("Connection", "X-Hop"), ("X-Hop", "1"), ("Keep-Alive", "timeout=5"),
                ("Proxy-Authenticate", "Basic"), ("Upgrade", "h2c"), ("X-Fine", "kept"),
                ("NEL", #"{"report_to":"evil","max_age":9}"#), ("Report-To", #"{"group":"evil","max_age":9}"#),
                ("Reporting-Endpoints", #"evil="https://evil.example""#), ("Accept-CH", "Sec-CH-UA-Model"),
                ("Content-Security-Policy-Report-Only", "report-to evil"), ("X-Forwarded-Host", "evil.example"),
                ("X-Coatcheck-Session", "evil"), ("Cache-Control", "max-age=300"),
            ])
    }

    private func trailers() -> Response {
        var response = Response(
            status: .ok,
            body: ResponseBody { writer in
                try await writer.write(ByteBuffer(string: "with trailers\n"))
                var fields = HTTPFields()
                fields.append("X-Trailer", "1")
                try await writer.finish(fields)
            })
        response.headers.append("Trailer", "X-Trailer")
        return response
    }

    private func events(_ count: Int) -> Response {
        var response = Response(
            status: .ok,
            body: ResponseBody { writer in
                for index in 0..<max(0, count) {
                    try await writer.write(ByteBuffer(string: "data: \(index)\n\n"))
                    try await Task.sleep(for: .milliseconds(100))
                }
                try await writer.finish(nil)
            })
        response.headers[.contentType] = "text/event-stream"
        return response
    }
}
