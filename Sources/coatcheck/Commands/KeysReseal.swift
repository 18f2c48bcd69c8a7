import ArgumentParser
import Broker

/// Has a running broker seal again what older keys have sealed.
struct KeysReseal: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reseal",
        abstract: "Seal everything under the newest key, in the background of a running broker; shows how far it is.",
        discussion: "It can be broken off and begun again at any time; the broker goes on without this command.")

    @OptionGroup var defaults: ConfigDefaults
    @OptionGroup var options: ManagementClient

    func run() async throws {
        let management = try options.completed(by: defaults.config)
        var answer = try await management.call("POST", "/admin/v1/keys/reseal")
        if answer?["state"]?.string == "elsewhere" {
            throw ManagementClient.fault("another process is at it; ask there, or again in half a minute")
        }
        func number(_ name: String) -> Int { answer?[name]?.integer.flatMap { Int(exactly: $0) } ?? 0 }
        var bar = ProgressBar(total: number("total"))
        var shown = 0
        while answer?["state"]?.string == "running" {
            bar.advance(number("seen") - shown)
            shown = number("seen")
            try await Task.sleep(for: .milliseconds(200))
            answer = try await management.call("GET", "/admin/v1/keys/reseal")
        }
        bar.advance(number("total") - shown)
        bar.finish()
        guard answer?["state"]?.string == "done" else {
            throw ManagementClient.fault("it was broken off: begin it again")
        }
        print("sealed again \(number("resealed")) of \(number("seen")) values under \(answer?["key"]?.string ?? "-")")
        guard number("unopened") == 0 else {
            throw ManagementClient.fault("\(number("unopened")) values do not open with this ring and stay as they are")
        }
    }
}
