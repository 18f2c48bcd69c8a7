/// A provider's verdict on an e-mail address, in the claim `email_verified` (SEC-33, decision 80).
package enum EmailVerdict {
    /// Returns whether a value marks the address as verified, which means `true` or the text `true` in upper or lower case.
    ///
    /// Some providers send texts. Every other value that is present, including null, means an unverified address.
    package static func isVerified(_ value: JSONValue) -> Bool {
        switch value {
        case .bool(let verdict): verdict
        case .string(let text): text.utf8.count == 4 && text.lowercased() == "true"
        case .number, .array, .object, .null: false
        }
    }
}
