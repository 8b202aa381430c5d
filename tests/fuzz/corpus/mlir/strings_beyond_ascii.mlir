func.func @"ü"() attributes {a = "naïve", "€" = 1, b = @"é"} {
  func.return
}
