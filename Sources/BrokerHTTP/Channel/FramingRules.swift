import Broker
import NIOHTTP1

/// Judges a request's head before anything is made of it: what one reader could take for another message than the next
/// one does is refused, not repaired (SEC-101, SEC-103).
enum FramingRules {
    enum Verdict: Equatable {
        /// Well formed; `close` when this is to be the connection's last request. `path` is the origin-form of an
        /// absolute-form target; its authority is the `Host`.
        case pass(expectsContinue: Bool, close: Bool, path: String?)
        case refuse
    }

    private enum Target {
        case origin
        case absolute(path: String)
        case malformed
    }

    /// Judges the head.
    static func check(_ head: HTTPRequestHead) -> Verdict {
        let modern = head.version.minor >= 1
        var host: String?
        var lengths = 0
        var codings = 0
        var expectsContinue = false
        var close = !modern
        for (name, value) in head.headers {
            // `X_Auth_User` is `X-Auth-User` to a CGI-like reader behind us (SEC-86).
            guard !name.utf8.contains(UInt8(ascii: "_")) else { return .refuse }
            switch name.utf8.count {
            case 4 where name.isASCIIEqual(to: "host"):
                guard host == nil else { return .refuse }
                host = value
            case 6 where name.isASCIIEqual(to: "expect"):
                expectsContinue = modern && value.isASCIIEqual(to: "100-continue")
            case 7 where name.isASCIIEqual(to: "upgrade"):
                // Ignored, as RFC 9110 section 7.8 allows; the parser reads nothing after such a message.
                close = true
            case 10 where name.isASCIIEqual(to: "connection"):
                guard value.isASCII else { return .refuse }
                if value.isASCIIEqual(to: "close") || value.lowercased().contains("close") { close = true }
            case 14 where name.isASCIIEqual(to: "content-length"):
                lengths += 1
                guard !value.isEmpty, value.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return .refuse }
            case 17 where name.isASCIIEqual(to: "transfer-encoding"):
                codings += 1
                guard modern, value.isASCIIEqual(to: "chunked") else { return .refuse }
            default: break
            }
        }
        guard let host, Authority.isWellFormed(host.utf8), lengths + codings <= 1 else { return .refuse }
        switch target(head.uri, host: host) {
        case .malformed: return .refuse
        case .origin: return .pass(expectsContinue: expectsContinue, close: close, path: nil)
        case .absolute(let path): return .pass(expectsContinue: expectsContinue, close: close, path: path)
        }
    }

    private static func target(_ target: String, host: String) -> Target {
        guard target.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "#") }) else {
            return .malformed
        }
        if target.utf8.first == UInt8(ascii: "/") { return .origin }
        let lowered = target.prefix(8).lowercased()
        let schemeLength = lowered.hasPrefix("http://") ? 7 : lowered == "https://" ? 8 : 0
        guard schemeLength > 0 else { return .malformed }
        let rest = target.dropFirst(schemeLength)
        let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
        // Two authorities that differ are two readings of one request.
        guard Authority.isWellFormed(rest[..<end].utf8), rest[..<end].isASCIIEqual(to: host) else { return .malformed }
        let path = rest[end...]
        return .absolute(path: path.hasPrefix("/") ? String(path) : "/" + path)
    }
}

extension StringProtocol {
    /// Compares ASCII letters without regard to case, and every other byte exactly.
    func isASCIIEqual(to other: some StringProtocol) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        return zip(utf8, other.utf8).allSatisfy { left, right in
            left == right || (left | 0x20 == right | 0x20 && (0x61...0x7A).contains(left | 0x20))
        }
    }
}
