import HTTPTypes

/// The header fields of every answer (SEC-108).
///
/// Each field is created once, because creating a field includes a check, and each answer has several fields.
enum SecurityFields {
    /// The field that requires https from then on; an answer has it only if the listener's rules have `hasStrictTransport`.
    static let strictTransport = HTTPField(name: .strictTransportSecurity, value: "max-age=31536000; includeSubDomains")
    static let contentSecurity = HTTPField(
        name: .contentSecurityPolicy, value: "default-src 'none'; frame-ancestors 'none'")
    /// The policy for relayed answers.
    ///
    /// A browser shows an upstream's page under the broker's origin, where the page must have no power. The directives after
    /// `default-src` cover the cases that `default-src` leaves out.
    static let relayedContentSecurity = HTTPField(name: .contentSecurityPolicy, value: relayed + "; sandbox")
    /// The policy for a relayed PDF.
    ///
    /// This policy leaves out `sandbox`, because the PDF viewers of browsers do not work in a sandbox.
    static let relayedPDFSecurity = HTTPField(name: .contentSecurityPolicy, value: relayed)
    private static let relayed = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    static let contentType = HTTPField(name: .xContentTypeOptions, value: "nosniff")
    static let referrer = HTTPField(name: .referrerPolicy, value: "no-referrer")

    /// The fields of every answer.
    static let all = [contentSecurity, contentType, referrer]
}
