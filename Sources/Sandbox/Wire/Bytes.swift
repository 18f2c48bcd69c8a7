import Crypto
import FoundationEssentials

/// Base64url without padding (RFC 4648 section 5).
enum Base64URL {
    static func encode(_ bytes: some DataProtocol) -> String {
        var out = ""
        for character in Data(bytes).base64EncodedString() {
            switch character {
            case "+": out.append("-")
            case "/": out.append("_")
            case "=": break
            default: out.append(character)
            }
        }
        return out
    }

    static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var plain = ""
        for character in text {
            switch character {
            case "-": plain.append("+")
            case "_": plain.append("/")
            case "+", "/", "=": return nil
            default: plain.append(character)
            }
        }
        while plain.utf8.count % 4 != 0 { plain.append("=") }
        return Data(base64Encoded: plain).map { Array($0) }
    }
}

/// SHA-256 in the two spellings the wire knows.
enum Digest256 {
    static func bytes(_ text: String) -> [UInt8] { Array(SHA256.hash(data: Array(text.utf8))) }
    static func base64url(_ text: String) -> String { Base64URL.encode(bytes(text)) }
    static func hex(_ bytes: some Sequence<UInt8>) -> String {
        var out = ""
        for byte in bytes {
            let hex = String(byte, radix: 16)
            out += hex.utf8.count == 1 ? "0" + hex : hex
        }
        return out
    }
}

/// Random names and secrets.
enum Random {
    static func token(_ prefix: String = "", bytes count: Int = 24) -> String {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        return prefix + Base64URL.encode(bytes)
    }
}

extension String {
    /// The text safe inside HTML text and quoted attributes.
    var htmlEscaped: String {
        var out = ""
        for character in self {
            switch character {
            case "&": out += "&amp;"
            case "<": out += "&lt;"
            case ">": out += "&gt;"
            case "\"": out += "&quot;"
            case "'": out += "&#39;"
            default: out.append(character)
            }
        }
        return out
    }
}
