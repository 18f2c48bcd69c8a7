import Broker

/// Has the key file looked at every two seconds and whenever it is asked for, without waiting for a file that does not
/// answer.
struct KeyRereading: Sendable {
    static let interval = Duration.seconds(2)

    private struct Text: Sendable {
        let bytes: Result<[UInt8], StartFailure>
        let isAsked: Bool
    }

    private let watch: KeyWatch
    private let clock: BrokerClock
    private let log: ProcessLog
    private let reading: Rereading<Text>

    init(_ watch: KeyWatch, _ clock: BrokerClock, log: ProcessLog) {
        self.watch = watch
        self.clock = clock
        self.log = log
        reading = Rereading(
            sleep: clock.sleep,
            isLate: {
                log.write(
                    .warning, "key file still reading",
                    [("detail", "it does not answer; the keys stay as they are, and it is taken over when it does")])
            },
            take: { watch.take($0.bytes, isAsked: $0.isAsked) })
    }

    /// Looks at the file, until it was taken or hangs; `isAsked` looks also where nothing has changed.
    func look(isAsked: Bool) async {
        // Whoever only looks by the clock leaves the file to the reading that hangs.
        guard isAsked || !reading.isReading else { return watch.lookAtTime() }
        let isBegun = await reading.run { [watch] in Text(bytes: watch.read(), isAsked: isAsked) }
        if !isBegun {
            log.write(.error, "keys not reloaded", [("detail", "the key file does not answer: several readings hang")])
        }
    }

    /// The work of looking every two seconds.
    var service: RepeatedWork {
        RepeatedWork(clock: clock, delay: Self.interval) {
            await look(isAsked: false)
            return Self.interval
        }
    }
}
