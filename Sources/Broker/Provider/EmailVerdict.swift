/// The verdict of a provider on an e-mail address: the claim `email_verified` (SEC-33, decision 80).
package enum EmailVerdict {
    /// Returns whether a value says that the address is verified: `true`, or the text `true` in any case.
    ///
    /// Some providers send texts. Every other value that is present, null included, means not verified.
    package static func isVerified(_ value: JSONValue) -> Bool {
        switch value {
        case .bool(let verdict): verdict
        case .string(let text): text.utf8.count == 4 && text.lowercased() == "true"
        case .number, .array, .object, .null: false
        }
    }
}
