/// Tells by the words of a Zephr failure whether the user said no.
///
/// Zephr has no code for it. What is not surely the user's no is a fault: that the app offers to try again is the smaller
/// mistake than that nobody looks for one.
enum ZephrRefusal {
    /// Words about how the site is set up, wherever they stand.
    private static let technical = ["redirect", "client", "secret", "config", "upstream", "server", "scope", "http"]
    /// Who or what a refusal is about, before the word for it.
    private static let openings: Set<String> = [
        "the", "user", "access", "permission", "consent", "authorization", "authorisation", "login", "sign", "in",
        "was",
        "has", "is", "been", "by",
    ]
    private static let refusals = ["denied", "deny", "denies", "cancel", "refuse", "declin", "abort"]

    static func isUsers(_ message: String) -> Bool {
        let words = message.lowercased().prefix(200).split { !$0.isLetter }.map(String.init)
        guard !words.contains(where: { word in technical.contains { word.hasPrefix($0) } }) else { return false }
        guard let word = words.first(where: { !openings.contains($0) }) else { return false }
        return refusals.contains { word.hasPrefix($0) }
    }
}
