import Broker
import BrokerWire
import NIOHTTP1

/// An upstream's challenge for a stronger or more recent sign-in (RFC 9470 section 3), parsed strictly.
///
/// If any part of the field is malformed, the challenge is ignored, and the 401 is handled like a 401 without a challenge.
enum UpstreamChallenge {
    static let error = "insufficient_user_authentication"
    private static let longest = 4096
    /// The largest number of challenges of a field, and of parameters of a challenge.
    ///
    /// The numbers are limited because each name is compared with all earlier ones.
    private static let most = 16

    /// Returns the demand in a response that has exactly one challenge for another sign-in; nil otherwise.
    static func demand(in response: UpstreamResponse) -> StepUpDemand? {
        let fields = response.headers["WWW-Authenticate"]
        guard !fields.isEmpty, fields.reduce(0, { $0 + $1.utf8.count }) <= longest else { return nil }
        var found: [[(name: String, value: String)]] = []
        for field in fields {
            guard let challenges = parse(field) else { return nil }
            found += challenges.filter { $0.contains { $0.name == "error" && $0.value == error } }
        }
        guard let challenge = found.first, found.count == 1 else { return nil }
        return demand(challenge)
    }

    private static func demand(_ parameters: [(name: String, value: String)]) -> StepUpDemand? {
        var demand = StepUpDemand()
        if let text = parameters.first(where: { $0.name == "acr_values" })?.value {
            let words = text.split(separator: " ").map(String.init)
            guard StepUpDemand.areClasses(words) else { return nil }
            demand.contextClasses = words
        }
        if let text = parameters.first(where: { $0.name == "max_age" })?.value {
            guard (1...10).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
                let age = Int64(text), age <= StepUpDemand.longestAge
            else { return nil }
            demand.maximumAge = age
        }
        return demand
    }

    /// Returns the parameters of a field's challenges (RFC 9110 section 11.6.1), with names in lower case.
    ///
    /// Returns nil in two cases: the field does not parse; or a challenge has two parameters with one name.
    static func parse(_ field: String) -> [[(name: String, value: String)]]? {
        var parser = Parser(rest: Array(field.utf8)[...])
        return parser.challenges()
    }

    private struct Parser {
        var rest: ArraySlice<UInt8>

        mutating func challenges() -> [[(name: String, value: String)]]? {
            var all: [[(name: String, value: String)]] = []
            skipSpace()
            while !rest.isEmpty {
                guard all.count < most, token() != nil else { return nil }
                var parameters: [(name: String, value: String)] = []
                if takeSpace() {
                    guard let read = self.parameters() else { return nil }
                    parameters = read
                } else if !takeComma(), !rest.isEmpty {
                    return nil
                }
                all.append(parameters)
            }
            return all
        }

        /// Reads `name=value` pairs up to the next scheme or the end.
        private mutating func parameters() -> [(name: String, value: String)]? {
            var found: [(name: String, value: String)] = []
            while true {
                let before = rest
                guard let name = token()?.lowercased() else { return rest.isEmpty ? found : nil }
                skipSpace()
                guard take(UInt8(ascii: "=")) else {
                    // A token that lacks a `=` is the scheme of the next challenge.
                    rest = before
                    return found.isEmpty ? nil : found
                }
                skipSpace()
                guard let value = rest.first == UInt8(ascii: "\"") ? quoted() : token() else { return nil }
                guard found.count < most, !found.contains(where: { $0.name == name }) else { return nil }
                found.append((name, value))
                skipSpace()
                guard !rest.isEmpty else { return found }
                guard takeComma() else { return nil }
            }
        }

        private mutating func quoted() -> String? {
            guard take(UInt8(ascii: "\"")) else { return nil }
            var bytes: [UInt8] = []
            while let byte = rest.popFirst() {
                switch byte {
                case UInt8(ascii: "\""): return String(validating: bytes, as: UTF8.self)
                case UInt8(ascii: "\\"):
                    guard let next = rest.popFirst(), next == 0x09 || (0x20...0x7E).contains(next) else { return nil }
                    bytes.append(next)
                case 0x09, 0x20...0x7E: bytes.append(byte)
                default: return nil
                }
            }
            return nil
        }

        private mutating func token() -> String? {
            let end = rest.firstIndex { !Self.isTokenByte($0) } ?? rest.endIndex
            guard end > rest.startIndex else { return nil }
            defer { rest = rest[end...] }
            return String(decoding: rest[..<end], as: UTF8.self)
        }

        private static let marks = Set("!#$%&'*+-.^_`|~".utf8)

        private static func isTokenByte(_ byte: UInt8) -> Bool {
            (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                || marks.contains(byte)
        }

        private mutating func take(_ byte: UInt8) -> Bool {
            guard rest.first == byte else { return false }
            rest.removeFirst()
            return true
        }

        private mutating func skipSpace() { rest = rest.drop { $0 == 0x20 || $0 == 0x09 } }

        private mutating func takeSpace() -> Bool {
            guard rest.first == 0x20 else { return false }
            skipSpace()
            return !rest.isEmpty && rest.first != UInt8(ascii: ",")
        }

        private mutating func takeComma() -> Bool {
            skipSpace()
            guard take(UInt8(ascii: ",")) else { return false }
            skipSpace()
            return true
        }
    }
}
