import Broker

/// Judges the texts of requests by the alphabets of the contract.
enum RequestText {
    /// Returns what is wrong with a text, or nil.
    static func fault(
        in text: String, length: ClosedRange<Int>, where allows: (Unicode.Scalar) -> Bool
    ) -> FieldFault.Code? {
        // Four bytes are the most that a character has: this looks at no more of an endless text.
        guard text.utf8.count <= length.upperBound * 4 else { return .tooLong }
        let count = text.unicodeScalars.count
        guard count <= length.upperBound else { return .tooLong }
        guard count >= length.lowerBound else { return .tooShort }
        return text.unicodeScalars.allSatisfy(allows) ? nil : .malformed
    }

    /// Returns whether it is no control character.
    static func isPrintable(_ scalar: Unicode.Scalar) -> Bool { scalar.value >= 0x20 && scalar.value != 0x7F }

    /// Returns whether it is ASCII that leaves a mark.
    static func isVisible(_ scalar: Unicode.Scalar) -> Bool { (0x21...0x7E).contains(scalar.value) }

    /// Returns whether it is visible ASCII or a space.
    static func isASCIIText(_ scalar: Unicode.Scalar) -> Bool { (0x20...0x7E).contains(scalar.value) }

    /// Returns whether it is of base64url's alphabet.
    static func isBase64URL(_ scalar: Unicode.Scalar) -> Bool {
        isAlphanumeric(scalar) || scalar == "-" || scalar == "_"
    }

    /// Returns whether it is of RFC 7636's alphabet for verifiers.
    static func isVerifier(_ scalar: Unicode.Scalar) -> Bool {
        isBase64URL(scalar) || scalar == "." || scalar == "~"
    }

    /// Returns whether it may stand in a parameter's or an attribute's name.
    static func isNamePart(_ scalar: Unicode.Scalar) -> Bool { isBase64URL(scalar) || scalar == "." }

    /// Returns whether it is a letter or digit of ASCII.
    static func isAlphanumeric(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: false
        }
    }

    /// Returns whether it may stand in a scope list (RFC 6749 section 3.3), its separator included.
    static func isScopeList(_ scalar: Unicode.Scalar) -> Bool {
        isASCIIText(scalar) && scalar != "\"" && scalar != "\\"
    }
}
