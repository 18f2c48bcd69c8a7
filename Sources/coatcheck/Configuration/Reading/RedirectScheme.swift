/// The URI schemes that apps must not claim.
enum RedirectScheme {
    static let forbidden: Set<String> = [
        "javascript", "data", "file", "about", "blob", "vbscript", "ftp", "ws", "wss", "mailto", "tel", "sms", "intent",
        "content", "filesystem", "view-source", "chrome", "resource",
    ]
}
