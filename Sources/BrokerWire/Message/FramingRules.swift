import NIOHTTP1

/// Checks the framing of a request's head before the request is used.
///
/// If two programs could understand the head differently, the request is refused instead of repaired (SEC-101, SEC-103).
enum FramingRules {
    enum Verdict: Equatable {
        /// The head is well formed.
        ///
        /// `path` is the origin-form of an absolute-form target, whose authority equals `Host`.
        case pass(ServerConnection.Head, path: String?)
        /// The head is well formed, but it is HTTP/1.0 without a `Host`. Such a request is refused unless the service answers
        /// its target (decision 91).
        case nameless(ServerConnection.Head)
        case refuse
    }

    private enum Target {
        case origin
        case absolute(path: String)
        case malformed
    }

    /// Returns the verdict on a request's head.
    static func check(_ head: HTTPRequestHead) -> Verdict {
        let modern = head.version.minor >= 1
        var host: String?
        var lengths = 0
        var codings = 0
        var summary = ServerConnection.Head()
        summary.minorVersion = modern ? 1 : 0
        summary.closes = !modern
        for (name, value) in head.headers {
            // A CGI-like program behind the broker would read `X_Auth_User` as `X-Auth-User` (SEC-86).
            guard !name.withBytes({ $0.contains(UInt8(ascii: "_")) }) else { return .refuse }
            switch name.utf8.count {
            case 4 where name.isASCIIEqual(to: "host"):
                guard host == nil else { return .refuse }
                host = value
            case 6 where name.isASCIIEqual(to: "expect"):
                summary.expectsContinue = modern && value.isASCIIEqual(to: "100-continue")
            case 7 where name.isASCIIEqual(to: "upgrade"):
                // The broker ignores the upgrade, as RFC 9110 section 7.8 allows. But the parser stops after a message with
                // this field, so the connection must close.
                summary.closes = true
            case 10 where name.isASCIIEqual(to: "connection"):
                guard value.utf8.allSatisfy({ $0 < 0x80 }) else { return .refuse }
                if value.isASCIIEqual(to: "close") || value.lowercased().contains("close") {
                    summary.closes = true
                }
            case 14 where name.isASCIIEqual(to: "content-length"):
                lengths += 1
                guard !value.isEmpty, value.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return .refuse }
                summary.hasBody = value != "0"
                // The decoder has refused all values that are not 64-bit numbers.
                if summary.hasBody { summary.bodyLength = Int(value) ?? .max }
            case 17 where name.isASCIIEqual(to: "transfer-encoding"):
                codings += 1
                guard modern, value.isASCIIEqual(to: "chunked") else { return .refuse }
                summary.hasBody = true
            default: break
            }
        }
        summary.isHead = head.method == .HEAD
        summary.isSafe = summary.isHead || head.method == .GET || head.method == .OPTIONS || head.method == .TRACE
        guard let host else {
            let isPlainRead = (summary.isHead || head.method == .GET) && lengths + codings == 0
            return modern || !isPlainRead ? .refuse : .nameless(summary)
        }
        guard host.withBytes({ Authority.isWellFormed($0) }), lengths + codings <= 1 else { return .refuse }
        switch target(head.uri, host: host) {
        case .malformed: return .refuse
        case .origin: return .pass(summary, path: nil)
        case .absolute(let path): return .pass(summary, path: path)
        }
    }

    private static func target(_ target: String, host: String) -> Target {
        let isPlain = target.withBytes { $0.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "#") } }
        guard isPlain else { return .malformed }
        if target.utf8.first == UInt8(ascii: "/") { return .origin }
        let lowered = target.prefix(8).lowercased()
        let schemeLength = lowered.hasPrefix("http://") ? 7 : lowered == "https://" ? 8 : 0
        guard schemeLength > 0 else { return .malformed }
        let rest = target.dropFirst(schemeLength)
        let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
        // The authority of the target must equal `Host`. Otherwise, two programs could treat the request as sent to two
        // different hosts.
        guard Authority.isWellFormed(rest[..<end].utf8), rest[..<end].isASCIIEqual(to: host) else { return .malformed }
        let path = rest[end...]
        return .absolute(path: path.hasPrefix("/") ? String(path) : "/" + path)
    }
}
